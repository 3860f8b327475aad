"""Take jobs in: note what GitHub says of them, and provision a runner for each that waits.

The hook and the duties come through here. A job gets one provision, however often it is seen: the key of the
provision is the job's id and the number of the try.
"""

import fnmatch
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from muster.domain.errors import (
    Conflict,
    Forbidden,
    IdempotencyMismatch,
    InvalidRequest,
    NotFound,
    ProviderError,
    Throttled,
)
from muster.domain.ids import OperationId
from muster.domain.jobs import Job, JobSighting, JobState, Unserved, served, unserved
from muster.domain.requests import ProvisionRequest
from muster.domain.run_decisions import RESERVED
from muster.domain.template import UsageClass
from muster.integrations.github.job_events import SOURCE
from muster.integrations.github.job_labels import Choice, NoChoice, choose, offers
from muster.integrations.github.requests import JOB, QueuedJob
from muster.integrations.github.reruns import follows_interruption
from muster.ports.duties import DutyContext

logger = logging.getLogger(__name__)

PATIENCE = 86400.0
"""Seconds that a provision waits for room. GitHub drops a job that was queued for a day."""
WRITES = 8
"""Tries of a guarded write: a job moves only a few times."""


def is_stale(seen: JobSighting, *, now: float) -> bool:
    """Return whether GitHub has dropped a queued job by now: a replayed delivery must start nothing."""
    return seen.state is JobState.QUEUED and now - (seen.queued_at or 0.0) > PATIENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    cause: Unserved
    detail: str


class JobIntake:
    def __init__(self, given: DutyContext, *, repositories: Sequence[str]) -> None:
        """Set what may be served. `repositories`: patterns of those that are allowed."""
        self._given = given
        self._allowed = tuple(each.lower() for each in repositories)

    def allows(self, repository: str) -> bool:
        return any(fnmatch.fnmatchcase(repository.lower(), each) for each in self._allowed)

    async def choose(self, labels: Sequence[str], repository: str) -> Choice | NoChoice | None:
        """Return the template for labels. None: they name none of ours."""
        return choose(labels, repository, offers(await self._given.store.templates()))

    async def note(self, sightings: Sequence[JobSighting]) -> Sequence[Job]:
        return await self._given.jobs.note(sightings, now=self._given.clock.now())

    async def serve(self, job: Job) -> Job:
        """Provision a runner for a queued job, or write why that can't be. Return the job as it is then."""
        if job.state is not JobState.QUEUED:
            return job
        found = await self._provisioned(job)
        if isinstance(found, Refusal):
            return await self.hold(job, found.cause, found.detail)
        choice, operation_id = found
        return await self._linked(job, choice, operation_id)

    async def _provisioned(self, job: Job) -> tuple[Choice, OperationId] | Refusal:
        if not self.allows(job.repository):
            return Refusal(
                cause=Unserved.NOT_ALLOWED, detail=f"{job.repository} is not in [github] repositories"
            )
        choice = await self.choose(job.labels, job.repository)
        if not isinstance(choice, Choice):
            detail = choice.detail if choice is not None else f"labels {', '.join(job.labels)}"
            return Refusal(cause=Unserved.NO_TEMPLATE, detail=detail)
        try:
            if await follows_interruption(self._given, job):
                choice = replace(choice, usage=(UsageClass.ON_DEMAND,))
            request = request_for(job, choice)
            key = f"{RESERVED}job/{job.id}/{job.tries}"
            operation = await self._given.desk.provision(request, key=key, ours=True)
        except IdempotencyMismatch as made:
            # An earlier look chose another template, and its answer was lost. One provision is enough.
            return choice, OperationId(made.operation_id)
        except (InvalidRequest, NotFound, Forbidden, ProviderError, Conflict) as error:
            logger.info("cannot serve a job", extra={"job": job.id, "error": str(error)})
            return Refusal(cause=_cause(error), detail=str(error))
        return choice, operation.id

    async def _linked(self, job: Job, choice: Choice, operation_id: OperationId) -> Job:
        for _ in range(WRITES):
            if job.operation_id == operation_id:
                return job
            now = self._given.clock.now()
            try:
                return await self._given.jobs.write(
                    served(job, template=choice.template, operation_id=operation_id, now=now)
                )
            except Conflict:
                job = await self._given.jobs.job(job.id)
        raise Conflict(f"cannot write job {job.id}: it moves all the time; it is tried again")

    async def hold(self, job: Job, cause: Unserved | None, detail: str = "") -> Job:
        """Write why a queued job waits. A job that moved meanwhile is left to the next look."""
        change = unserved(job, cause, detail=detail, now=self._given.clock.now())
        if change is None:
            return job
        try:
            return await self._given.jobs.write(change)
        except Conflict:
            return await self._given.jobs.job(job.id)


def request_for(job: Job, choice: Choice) -> ProvisionRequest:
    """Return the provision of one runner for a job. Raises InvalidRequest for odd ids or labels."""
    wanted = QueuedJob(
        repository=job.repository,
        run_id=_number("run", job.run),
        attempt=job.attempt or 1,
        job_id=_number("id", job.id.removeprefix(f"{SOURCE}-")),
        labels=job.labels,
    )
    return ProvisionRequest(
        template=choice.template,
        count=1,
        run=wanted.run,
        owner=job.repository,
        resource_class=choice.resource_class,
        usage=choice.usage,
        queue_timeout=PATIENCE,
        tables={JOB.name: wanted},
    )


def _number(field: str, text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise InvalidRequest(f"job.{field}", text, "must be a number")
    return int(text)


def _cause(error: Exception) -> Unserved:
    if isinstance(error, Throttled):
        return Unserved.THROTTLED
    return Unserved.REGISTRATION if isinstance(error, ProviderError) else Unserved.INVALID
