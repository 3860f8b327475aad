"""Tell how a scale set is doing: its state, GitHub's own counts, and what an operator should know."""

from dataclasses import dataclass, replace

from muster.domain.job_figures import SourceCounts
from muster.integrations.github.scale_set_shapes import Statistics
from muster.integrations.github.scale_sets import SetSpec
from muster.integrations.github.set_jobs import SOURCE
from muster.integrations.github.set_scaling import Bounds, Plan
from muster.ports.clock import Clock
from muster.ports.jobs import JobStore

EVERY = 10.0
"""Seconds between two notes of unchanged counts."""
LISTENING, WAITING, TROUBLED, REFUSED, STOPPED = (
    "listening",
    "waiting for the session",
    "in trouble",
    "refused",
    "stopped",
)
PRIVATE = "listening; its runner group gets no jobs of public repositories"


@dataclass(slots=True, kw_only=True)
class SetReport:
    jobs: JobStore
    clock: Clock
    template: str
    spec: SetSpec
    queue: str
    _told: SourceCounts | None = None

    async def tell(
        self,
        state: str,
        problem: str = "",
        said: Statistics | None = None,
        *,
        plan: Plan | None = None,
        bounds: Bounds | None = None,
        failing: bool = False,
    ) -> None:
        """Store the set's counts and state, for all replicas to show. Unchanged ones are stored rarely.

        `failing`: GitHub can't be reached, or refuses. Since when is kept until it answers again.
        """
        now, said = self.clock.now(), said or Statistics()
        counts = SourceCounts(
            source=SOURCE,
            queue=self.queue,
            at=now,
            scope=str(self.spec.scope),
            template=self.template,
            state=state,
            problem=problem,
            failing_since=await self._failing_since(now) if failing else None,
            available=said.total_available_jobs,
            assigned=said.total_assigned_jobs,
            running=said.total_running_jobs,
            registered=said.total_registered_runners,
            busy=said.total_busy_runners,
            idle=said.total_idle_runners,
            least=0 if bounds is None else bounds.min_idle,
            most=None if bounds is None else bounds.most,
            desired=0 if plan is None else plan.target,
        )
        before = self._told
        if before is None or now >= before.at + EVERY or replace(counts, at=before.at) != before:
            await self.jobs.note_counts(counts)
            self._told = counts

    async def _failing_since(self, now: float) -> float:
        """Return when the failure began that goes on now, also as another replica told it."""
        before = self._told
        if before is None:
            own = (SOURCE, self.queue)
            known = await self.jobs.source_counts()
            before = next((each for each in known if (each.source, each.queue) == own), None)
        since = None if before is None else before.failing_since
        return now if since is None else since
