"""Keep queued jobs served, and runners that wait for no job bounded.

A job whose webhook was cut short, whose provision failed or whose runner another job took gets another
provision. A job that can't be served says why. A runner that waits is withdrawn after `idle_timeout`, at once
if its job is over. Its registration goes first: GitHub refuses that for a runner that has just got a job.
"""

import logging
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass

from muster.domain.errors import ProviderError, Refused
from muster.domain.ids import AssignmentId, JobId, OperationId
from muster.domain.job_figures import SourceCounts
from muster.domain.jobs import Job, JobState, Unserved
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Operation, Status
from muster.domain.requests import ProvisionRequest, ReleaseRequest
from muster.domain.run_decisions import RESERVED
from muster.domain.template import TemplateSpec
from muster.integrations.github.job_decisions import Serve, Taken, decide
from muster.integrations.github.job_events import SOURCE
from muster.integrations.github.job_intake import JobIntake
from muster.integrations.github.job_lookup import JobLookup
from muster.integrations.github.registry import GitHubRegistry
from muster.integrations.github.requests import JOB, QueuedJob
from muster.integrations.github.runners import Scope, runner_name, scope_of
from muster.integrations.github.tables import TEMPLATE
from muster.ports.duties import DutyContext
from muster.ports.paging import every_job, every_node, provisions
from muster.ports.store import if_found

logger = logging.getLogger(__name__)

LABELS = ""
"""The queue of jobs that labels bring: they have no queue of their own at GitHub."""
LOOKS_MOST = 1000
"""Queued jobs whose provision is read in one round; the others have their turn in the next."""
DOUBTS_MOST = 50
"""Jobs that are looked up at GitHub in one round before they get a second runner."""


Spares = dict[frozenset[str], list[OperationId]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    """A node whose runner has no job that is known."""

    node: Node
    spec: TemplateSpec
    operation: Operation
    job: QueuedJob


class JobKeeper:
    def __init__(
        self,
        given: DutyContext,
        registry: GitHubRegistry,
        intake: JobIntake,
        lookup: JobLookup,
        *,
        installation_id: str,
    ) -> None:
        self._given = given
        self._registry = registry
        self._intake = intake
        self._lookup = lookup
        self._installation = installation_id
        self._looked: dict[JobId, int] = {}
        self._round = 0

    async def reconcile(self) -> None:
        self._round += 1
        queued = [job async for job in self._jobs(JobState.QUEUED)]
        busy = [job async for job in self._jobs(JobState.RUNNING)]
        assignments = {job.assignment_id for job in busy}
        spares = await self._spares({job.id for job in queued})
        await self._serve(queued, assignments, spares)
        for spare in (each for some in spares.values() for each in some):
            await self._release(spare)
        waiting, count = await self._runners(assignments)
        problem = await self._problem(queued)
        await self._given.jobs.note_counts(
            SourceCounts(
                source=SOURCE,
                queue=LABELS,
                at=self._given.clock.now(),
                state="webhooks",
                problem=problem,
                failing_since=await self._failing_since() if problem else None,
                assigned=len(queued) + len(busy),
                running=len(busy),
                registered=count,
                busy=count - len(waiting),
                idle=len(waiting),
            )
        )
        for each in waiting:
            await self._bound(each)

    async def _problem(self, queued: Sequence[Job]) -> str:
        """Return why GitHub can't be asked for runners, while jobs wait. A refusal is told with each job."""
        oldest = min(
            (job for job in queued if self._intake.allows(job.repository)),
            key=lambda job: (job.waits_since, job.id),
            default=None,
        )
        if oldest is None:
            return ""
        try:
            await self._registry.check(Scope.named(oldest.repository), group="")
        except Refused:
            return ""
        except ProviderError as error:
            return str(error)
        return ""

    async def _failing_since(self) -> float:
        """Return when the failure began that goes on now."""
        known = await self._given.jobs.source_counts()
        own = next((each for each in known if (each.source, each.queue) == (SOURCE, LABELS)), None)
        since = None if own is None else own.failing_since
        return self._given.clock.now() if since is None else since

    async def _jobs(self, state: JobState) -> AsyncIterator[Job]:
        """Yield the jobs that labels bring here. Those of a queue have their own listener."""
        async for job in every_job(self._given.jobs, states=(state,)):
            if job.source == SOURCE and not job.queue:
                yield job

    # --- jobs that wait -----------------------------------------------------------------------------

    async def _serve(self, queued: list[Job], busy: Collection[AssignmentId | None], spares: Spares) -> None:
        paused = await self._given.access.pauses()
        self._looked = {job.id: self._looked.get(job.id, 0) for job in queued}
        turn = sorted(queued, key=lambda job: (self._looked[job.id], job.waits_since, job.id))[:LOOKS_MOST]
        doubts = 0
        for job in turn:
            self._looked[job.id] = self._round
            operation = await self._operation(job.operation_id)
            node = None if operation is None else await self._handed(operation)
            now = self._given.clock.now()
            found = decide(job, operation, node, busy=busy, paused=paused, now=now)
            if isinstance(found, Taken) and (spare := spares.get(_labels(job.labels))):
                spare.pop(0)
                await self._intake.hold(job, Unserved.TAKEN, "a spare runner with its labels is on its way")
            elif isinstance(found, Serve) and found.doubtful:
                doubts += 1
                if doubts <= DOUBTS_MOST:
                    await self._intake.serve(await self._lookup.look_up(job))
            elif isinstance(found, Serve | Taken):
                await self._intake.serve(job)
            else:
                await self._intake.hold(job, found.cause, found.detail)

    async def _operation(self, operation_id: OperationId | None) -> Operation | None:
        return None if operation_id is None else await if_found(self._given.store.operation(operation_id))

    async def _handed(self, operation: Operation) -> Node | None:
        if operation.status is not Status.SUCCEEDED or not operation.members:
            return None
        member = operation.members[0]
        node = await if_found(self._given.store.node(member.node_id))
        return node if node is not None and node.assignment_id == member.assignment_id else None

    # --- runners that wait --------------------------------------------------------------------------

    async def _runners(self, busy: set[AssignmentId | None]) -> tuple[list[_Waiting], int]:
        """Return the runners without a job, and how many there are in all."""
        found: list[_Waiting] = []
        count = 0
        for template in await self._given.store.templates():
            if template.spec.runtime != "github":
                continue
            async for node in every_node(
                self._given.store, states=(NodeState.RUNNING,), template=template.name
            ):
                operation = await self._operation(node.operation_id)
                job = None if operation is None else _job_of(operation)
                if operation is None or job is None:
                    continue
                count += 1
                if node.assignment_id not in busy:
                    found.append(_Waiting(node=node, spec=template.spec, operation=operation, job=job))
        return found, count

    async def _bound(self, waiting: _Waiting) -> None:
        job = await self._known(waiting.job)
        unneeded = job is not None and job.state is JobState.COMPLETED and job.started_at is None
        patience = 0.0 if unneeded else waiting.spec.idle_timeout
        if self._given.clock.now() - waiting.node.entered_at < patience:
            return
        try:
            removed = await self._removed(waiting)
        except ProviderError as error:
            logger.info("cannot withdraw a waiting runner", extra={"error": str(error)})
            return
        if removed:
            await self._release(waiting.operation.id)

    async def _removed(self, waiting: _Waiting) -> bool:
        """Remove the runner's registration. False: it has a job, or has just ended one."""
        scope = scope_of(TEMPLATE.of(waiting.spec), waiting.job)
        assignment = waiting.node.assignment_id
        if scope is None or assignment is None:
            return False
        runner = await self._registry.find(scope, runner_name(self._installation, assignment))
        if runner is None or runner.busy:
            return False
        return await self._registry.remove(scope, runner.id)

    async def _known(self, job: QueuedJob) -> Job | None:
        return await if_found(self._given.jobs.job(_id_of(job)))

    # --- provisions whose job needs them no more ----------------------------------------------------

    async def _spares(self, queued: Collection[JobId]) -> Spares:
        """Return provisions under way whose job is over or runs elsewhere, by labels, oldest first."""
        found: Spares = {}
        under_way = provisions(self._given.store, run=None, statuses=(Status.QUEUED, Status.RUNNING))
        async for operation in under_way:
            asked = _job_of(operation)
            if asked is None or operation.committed or operation.cancel_requested_at is not None:
                continue
            if _id_of(asked) in queued:
                continue
            job = await self._known(asked)
            if job is not None and job.state is not JobState.QUEUED:
                found.setdefault(_labels(asked.labels), []).insert(0, operation.id)
        return found

    async def _release(self, operation_id: OperationId) -> None:
        key = f"{RESERVED}{operation_id}/job-over"
        await self._given.desk.release(ReleaseRequest(operation_id=operation_id), key=key, ours=True)


def _job_of(operation: Operation) -> QueuedJob | None:
    request = operation.request
    return JOB.of(request) if isinstance(request, ProvisionRequest) else None


def _id_of(job: QueuedJob) -> JobId:
    return JobId(f"{SOURCE}-{job.job_id}")


def _labels(labels: tuple[str, ...]) -> frozenset[str]:
    return frozenset(label.lower() for label in labels)
