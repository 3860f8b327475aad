"""A scale set for scenarios: jobs that just say `runs-on`, and runners that take whatever is assigned."""

import asyncio
import base64
import json
from collections.abc import Sequence
from typing import Any

from fakes.github import Job, ScaleSet
from muster.domain.errors import Gone, MusterError
from muster.domain.ids import AssignmentId
from muster.domain.job_figures import SourceCounts
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.enrolment.reports import Report
from muster.integrations.github.runners import RunnerSpec
from muster.ports.runtime import Kit
from muster_simulation.github.state import Run, Runner
from muster_simulation.life import outside
from tests.harness.github import REPOSITORY, GitHubHarness, given
from tests.harness.harness import Harness

NAME = "muster-linux"
LOOKS = 0.5
"""Seconds between two looks of a runner for a job."""


class ScaleSetHarness(GitHubHarness):
    """Jobs last as many seconds as their script says."""

    takes_jobs = True
    """False: runners are online and GitHub gives them nothing."""
    crowd = 0
    """The most runners of the set that were there at once."""
    served: list[str]
    """Names of jobs that came to their end, each as often as it did."""
    dead: set[str]
    """Names of runners whose machine is gone. GitHub may still list them."""

    @classmethod
    async def listening(
        cls, harness: Harness, *, runner: dict[str, Any] | None = None, **template: Any
    ) -> "ScaleSetHarness":
        spec = RunnerSpec(**{"scope": REPOSITORY, "scale_set": NAME, **(runner or {})})
        made = await cls.set(harness, **{"tables": {"runner": spec}, "max_nodes": 50, **template})
        assert isinstance(made, ScaleSetHarness)
        made.served, made.dead = [], set()
        return made

    def host(self, kit: Kit) -> None:
        super().host(kit)
        if "jit" not in given(kit):
            return
        files = json.loads(base64.b64decode(given(kit)["jit"]))
        credential = json.loads(base64.b64decode(files[".credentials"]))["data"]
        runner = self.world.holder(credential)
        assert runner is not None
        self.crowd = max(self.crowd, len(self.living()))
        self.harness.keep(outside(asyncio.create_task, self._work(runner)))

    async def _work(self, runner: Runner) -> None:
        """Take one job, do it, and go; or go when the registration is removed."""
        job = None
        while runner.id in self.world.runners and job is None:
            await asyncio.sleep(LOOKS)
            if runner.name in self.dead:
                return
            if self.takes_jobs and runner.id in self.world.runners and self.connects:
                job = self.world.take(runner, 0.0)
                runner.seen_at = float("inf")
        if job is not None:
            await asyncio.sleep(float(job.script))
            if not await self._alive(runner):
                return
            self.served.append(job.name)
            self.world.finish(runner, job.id, "success", "")
        await self._report(runner)

    async def _alive(self, runner: Runner) -> bool:
        node = await self._node_of(runner)
        return node is not None and node.state not in (NodeState.TERMINATING, NodeState.TERMINATED)

    async def _node_of(self, runner: Runner) -> Node | None:
        nodes = await self.harness.nodes()
        return next((each for each in nodes if runner.name.endswith(f"-{each.assignment_id}")), None)

    async def _report(self, runner: Runner) -> None:
        """The program ended: its agent says so until it is heard."""
        while (node := await self._node_of(runner)) is not None and node.assignment_id is not None:
            try:
                assignment = AssignmentId(node.assignment_id)
                await self.harness.enrolment.report(node.id, Report(detached=assignment))
            except Gone:
                return
            except MusterError:
                pass
            await asyncio.sleep(2.0)

    def living(self) -> list[Runner]:
        return [runner for runner in self.runners() if runner.name not in self.dead]

    # --- GitHub's side --------------------------------------------------------------------------------

    @property
    def scale_set(self) -> ScaleSet:
        (found,) = self.world.sets.of(REPOSITORY)
        return found

    def queue(self, count: int, *, lasts: float = 5.0, labels: Sequence[str] = (NAME,)) -> list[Job]:
        run = self.begin()
        names = [f"job-{run.id}-{each}" for each in range(count)]
        return self.world.queue_all(run, names, labels, str(lasts))

    def run_of(self, job: Job) -> Run:
        return self.world.runs[job.repository, job.run_id]

    async def done(self, jobs: Sequence[Job], *, within: float = 600.0) -> None:
        async def completed() -> bool:
            return all(job.status == "completed" for job in jobs)

        await self.harness.until(completed, within=within)

    async def has_session(self, *, within: float = 300.0) -> None:
        async def alive() -> bool:
            found = self.world.sets.of(REPOSITORY)
            return bool(found) and self.world.sets.alive(found[0])

        await self.harness.until(alive, within=within)

    async def counts(self) -> SourceCounts:
        counts = await self.harness.store.jobs.source_counts()
        (found,) = [each for each in counts if each.queue == NAME]
        return found

    async def tidy(self, *, idle: int | None = 0) -> None:
        """No runner is left at GitHub, and no node serves."""

        async def gone() -> bool:
            return not self.runners()

        await self.harness.until(gone)
        await self.harness.nothing_is_left(idle=idle)
        assert len(self.served) == len(set(self.served)), "a job ran twice"
