"""Look up jobs at GitHub, for webhooks that were lost: GitHub sends each once, and in no order.

At a bounded rate, with requests that leave a reserve for registrations. Unchanged answers cost nothing of the
limit. What is found is noted as a webhook would be; the job keeper serves it.
"""

import logging
from collections.abc import Sequence

from muster.domain.errors import ProviderError
from muster.domain.ids import JobId
from muster.domain.jobs import OPEN_JOBS, Job, JobResult, JobSighting, JobState
from muster.integrations.github.job_events import SOURCE, sighting, state_of
from muster.integrations.github.job_intake import JobIntake, is_stale
from muster.integrations.github.registry import GitHubRegistry
from muster.ports.duties import DutyContext
from muster.ports.paging import every_job

logger = logging.getLogger(__name__)

REPOSITORIES_MOST = 10
"""Asked for runs in one round, those first that waited longest."""
RUNS_MOST = 50
"""Whose jobs are read in one round."""
JOBS_MOST = 50
"""Open jobs that are looked up one by one in a round."""
QUIET = 120.0
"""Seconds without news after which an open job is looked up."""
RECENT = 200
"""Newest jobs that are over, whose repositories are still asked."""


class JobLookup:
    def __init__(
        self,
        given: DutyContext,
        workflows: GitHubRegistry,
        intake: JobIntake,
        *,
        repositories: Sequence[str],
        installation_id: str,
    ) -> None:
        self._given = given
        self._workflows = workflows
        self._intake = intake
        self._listed = tuple(each for each in repositories if not each.endswith("/*"))
        self._installation = installation_id
        self._asked: dict[str, int] = {}
        self._seen: dict[JobId, float] = {}
        """When an open job was last looked up."""
        self._round = 0

    async def reconcile(self) -> None:
        self._round += 1
        known = [
            job
            async for job in every_job(self._given.jobs, states=OPEN_JOBS)
            if job.source == SOURCE and not job.queue
        ]
        await self._look_for_unknown(known)
        await self._look_up(known)

    # --- jobs that are not known --------------------------------------------------------------------

    async def _look_for_unknown(self, known: Sequence[Job]) -> None:
        recent = (await self._given.jobs.jobs(states=(JobState.COMPLETED,), limit=RECENT)).items
        names = {*self._listed, *(job.repository for job in (*known, *recent) if not job.queue)}
        allowed = sorted(each for each in names if self._intake.allows(each))
        self._asked = {each: self._asked.get(each, 0) for each in allowed}
        budget = RUNS_MOST
        for name in sorted(allowed, key=lambda each: (self._asked[each], each))[:REPOSITORIES_MOST]:
            self._asked[name] = self._round
            try:
                budget -= await self._look_at(name, budget)
            except ProviderError as error:
                logger.info("cannot look for queued jobs", extra={"repository": name, "error": str(error)})

    async def _look_at(self, repository: str, budget: int) -> int:
        """Note the queued jobs of a repository; return how many runs were read."""
        runs = list(await self._workflows.active(repository))[: max(0, budget)]
        found: list[JobSighting] = []
        for run in runs:
            for job in await self._workflows.workflow_jobs(repository, run.run_id):
                if state_of(job) is not JobState.QUEUED:
                    continue
                if await self._intake.choose(job.labels, repository) is None:
                    continue
                now = self._given.clock.now()
                seen = sighting(job, repository, JobState.QUEUED, installation_id=self._installation, now=now)
                if not is_stale(seen, now=now):
                    found.append(seen)
        if found:
            await self._intake.note(found)
        return len(runs)

    # --- jobs whose news may be lost ----------------------------------------------------------------

    async def _look_up(self, known: Sequence[Job]) -> None:
        now = self._given.clock.now()
        self._seen = {job.id: self._seen.get(job.id, job.updated_at) for job in known}
        quiet = [job for job in known if now - max(self._seen[job.id], job.updated_at) > QUIET]
        for job in sorted(quiet, key=lambda each: (self._seen[each.id], each.id))[:JOBS_MOST]:
            self._seen[job.id] = now
            await self.look_up(job)

    async def look_up(self, job: Job) -> Job:
        """Note what GitHub says of a job now; return the job as it is then, or as it was if GitHub fails."""
        try:
            found = await self._found(job)
        except ProviderError as error:
            logger.info("cannot look up a job", extra={"job": job.id, "error": str(error)})
            return job
        return job if found is None else (await self._intake.note([found]))[0]

    async def _found(self, job: Job) -> JobSighting | None:
        """Return what GitHub says of a job. None: it waits for an approval, or can't be seen."""
        number = int(job.id.removeprefix(f"{SOURCE}-"))
        answer = await self._workflows.workflow_job(job.repository, number)
        now = self._given.clock.now()
        if answer is not None:
            state = state_of(answer)
            if state is None:
                return None
            return sighting(answer, job.repository, state, installation_id=self._installation, now=now)
        if not await self._workflows.can_see(job.repository):
            return None
        # Its run was deleted, and only runs that are over can be.
        return JobSighting(
            id=job.id, source=SOURCE, state=JobState.COMPLETED, completed_at=now, result=JobResult.UNKNOWN
        )
