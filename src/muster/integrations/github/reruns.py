"""Run interrupted jobs again: once their run is over, with one request for all of them.

The decision is stored before GitHub is asked, so two servers never ask for the same. A request that meets an
error which passes is repeated, if GitHub shows no newer attempt. A server that is killed after its decision
may not have sent the request. Another one then asks GitHub for the run, and sends the request only if the
interrupted jobs are still the latest. The event `rerun` of the job says what was asked for; GitHub has no way
to write it into the run's summary from outside.
"""

import logging
from collections.abc import Sequence

from muster.domain.errors import Conflict, ProviderError, Throttled, Uncertain
from muster.domain.jobs import Job, JobState, rerun
from muster.integrations.github.job_events import SOURCE
from muster.integrations.github.registry import GitHubRegistry
from muster.integrations.github.rerun_decisions import Never, RerunFailed, RerunJob, Wait, decide, used
from muster.integrations.github.tables import TEMPLATE
from muster.ports.duties import DutyContext
from muster.ports.paging import pages

logger = logging.getLogger(__name__)

BATCH = 500
JOBS_MOST = 20 * BATCH
"""Newest jobs that are looked at in one round."""
OF_RUN_MOST = 1000
RUNS_MOST = 20
"""Looked up in one round."""
LATEST = 86400.0
"""Seconds after which an interrupted job is left alone."""
PAUSES = (2.0, 5.0, 15.0)
"""Seconds before a request is repeated. A duty's tick has 60 in all."""
REPEAT_AFTER = 90.0
"""Seconds after a decision until another server may send its request. A duty's tick has 60, and GitHub needs
some time to show a new attempt."""
REFUSED = "rerun_refused"
EVENTS = 50
"""Newest events of a job in which a refusal is looked for."""
_RunKey = tuple[str, str, int | None]


class Reruns:
    def __init__(self, given: DutyContext, workflows: GitHubRegistry) -> None:
        self._given = given
        self._workflows = workflows
        self._settled: dict[_RunKey, bool] = {}
        """Attempts that need no look any more. Forgotten by a restart, which looks once more."""

    async def reconcile(self) -> None:
        found = await self._interrupted()
        self._settled = {key: True for key in self._settled if key in found}
        budgets = {
            template.name: TEMPLATE.of(template.spec).rerun_interrupted
            for template in await self._given.store.templates()
            if template.spec.runtime == "github"
        }
        for key in [each for each in found if each not in self._settled][:RUNS_MOST]:
            budget = max((budgets.get(job.template or "", 0) for job in found[key]), default=0)
            try:
                if not budget or await self._attempt(found[key], budget):
                    self._settled[key] = True
            except ProviderError as error:
                logger.info("cannot look after an interrupted run", extra={"error": str(error)})

    async def _interrupted(self) -> dict[_RunKey, list[Job]]:
        """Return the attempts with interrupted jobs, oldest first."""
        states = (JobState.RUNNING, JobState.COMPLETED)
        since = self._given.clock.now() - LATEST
        found: dict[_RunKey, list[Job]] = {}
        newest: list[Job] = []
        async for page in pages(lambda after: self._given.jobs.jobs(states=states, after=after, limit=BATCH)):
            newest.extend(page.items)
            if len(newest) >= JOBS_MOST or (newest and newest[-1].created_at < since):
                break
        for job in reversed(newest):
            if job.interrupted and job.source == SOURCE and job.run.isdigit() and job.updated_at >= since:
                found.setdefault((job.repository, job.run, job.attempt), []).append(job)
        return found

    async def _attempt(self, interrupted: Sequence[Job], budget: int) -> bool:
        """Run an attempt again if that is right. False: it is too early to say."""
        decided = next((job for job in interrupted if job.rerun_at is not None), None)
        if decided is not None and await self._refused(decided):
            return True
        if decided is not None and self._given.clock.now() < (decided.rerun_at or 0.0) + REPEAT_AFTER:
            return False
        repository, run_id = interrupted[0].repository, int(interrupted[0].run)
        run = await self._workflows.run(repository, run_id)
        listed = () if run is None else await self._workflows.workflow_jobs(repository, run_id)
        known = await self._given.jobs.of_run(repository, str(run_id), limit=OF_RUN_MOST)
        decision = decide(run, interrupted, listed, budget=budget, spent=used(known) - used(interrupted))
        if isinstance(decision, Wait):
            return False
        where = f"run {run_id} of {repository}"
        if isinstance(decision, Never):
            logger.info("an interrupted run is left alone", extra={"run": where, "why": decision.why})
            return True
        if decided is not None:
            logger.info("repeating a re-run that GitHub never got", extra={"run": where})
            return await self._settle(decided, decision, where)
        return await self._ask(interrupted[0], decision, where)

    async def _refused(self, decided: Job) -> bool:
        page = await self._given.store.last_events(limit=EVENTS, entity_id=decided.id)
        return any(event.name == REFUSED for event in page.items)

    async def _ask(self, lead: Job, decision: RerunFailed | RerunJob, where: str) -> bool:
        now = self._given.clock.now()
        count = len(decision.jobs) if isinstance(decision, RerunFailed) else 1
        words = f"asked GitHub to run {count} interrupted job{'s' if count > 1 else ''} of {where} again"
        try:
            await self._given.jobs.write(rerun(lead, detail=words, now=now))
        except Conflict:
            return False  # it moved, or another replica was faster: the next look decides
        return await self._settle(lead, decision, where)

    async def _settle(self, lead: Job, decision: RerunFailed | RerunJob, where: str) -> bool:
        """Send a request that was decided, and note a refusal: neither is repeated."""
        try:
            await self._request(lead, decision)
        except ProviderError as error:
            now = self._given.clock.now()
            logger.warning("GitHub did not take a re-run", extra={"run": where, "error": str(error)})
            await self._given.store.note(lead.id, REFUSED, reason=None, detail=str(error), now=now)
        else:
            logger.info("asked for a re-run", extra={"run": where})
        return True

    async def _request(self, lead: Job, decision: RerunFailed | RerunJob) -> None:
        """Ask GitHub, and again after an error that passes, as long as it shows no newer attempt."""
        for pause in PAUSES:
            try:
                await self._send(lead, decision)
            except (Throttled, Uncertain):
                if lead.attempt is None:
                    raise
                await self._given.clock.sleep(pause)
                run = await self._workflows.run(lead.repository, int(lead.run))
                if run is None or run.attempt > lead.attempt:
                    return  # it was carried out, and only the answer was lost
            else:
                return
        await self._send(lead, decision)

    async def _send(self, lead: Job, decision: RerunFailed | RerunJob) -> None:
        if isinstance(decision, RerunFailed):
            await self._workflows.rerun_failed(lead.repository, int(lead.run))
        else:
            await self._workflows.rerun_job(lead.repository, decision.job)


async def follows_interruption(given: DutyContext, job: Job) -> bool:
    """Return whether the job belongs to a re-run that Muster asked for after an interruption."""
    if job.attempt is None or job.attempt < 2:  # noqa: PLR2004 — the first re-run is attempt 2
        return False
    known = await given.jobs.of_run(job.repository, job.run, limit=OF_RUN_MOST)
    return any(each.rerun_at is not None for each in known)
