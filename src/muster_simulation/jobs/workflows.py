"""People at GitHub: they begin runs of workflows, and cancel some."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from muster_simulation.github import Run
from muster_simulation.jobs.faults import JobPlan
from muster_simulation.jobs.github import SimulatedGitHub
from muster_simulation.trace import FaultCounts

SET_REPOSITORY = "acme/shop"
LABEL_REPOSITORY = "acme/tools"
FOREIGN = "stranger/fork"
"""It may not have machines, and names our labels all the same."""
REPOSITORIES = (SET_REPOSITORY, SET_REPOSITORY, LABEL_REPOSITORY, LABEL_REPOSITORY, FOREIGN)
SET_NAME, LABEL = "muster-set", "muster-label"
CROWD = 3
"""Some runs have so many times the usual number of jobs."""
CROWDED = 0.1


class People:
    def __init__(
        self,
        plan: JobPlan,
        github: SimulatedGitHub,
        *,
        random: Random,
        counts: FaultCounts,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self.stopped = False
        self.cancelled: dict[int, int] = {}
        """The attempt at which each run was cancelled."""
        self._plan = plan
        self._github = github
        self._random = random
        self._counts = counts
        self._spawn = spawn

    async def work(self) -> None:
        while not self.stopped:
            await asyncio.sleep(self._random.expovariate(1.0 / self._plan.every))
            if not self.stopped:
                self._begin()

    def _begin(self) -> None:
        random, state = self._random, self._github.state
        repository = random.choice(REPOSITORIES)
        label = SET_NAME if repository == SET_REPOSITORY else LABEL
        count = random.randint(1, self._plan.largest) * (CROWD if random.random() < CROWDED else 1)
        run = state.begin(repository)
        lasts = random.uniform(*self._plan.lasts)
        names = [f"job-{number}" for number in range(count)]
        jobs = state.queue_all(run, names, [label], f"{lasts:.1f}")
        state.complete(run)
        for job in jobs:
            self._github.told(job, "queued")
        self._counts.add("workflow run")
        if random.random() < self._plan.cancelled:
            self._spawn(self._cancel(run))

    async def _cancel(self, run: Run) -> None:
        """Cancel a run's waiting jobs. Those that run go on."""
        await asyncio.sleep(self._random.uniform(0.0, 60.0))
        if self._github.state.status(run) == "completed":
            return
        waiting = [job for job in run.jobs if job.status == "queued"]
        self.cancelled[run.id] = run.attempt
        self._github.state.cancel(run)
        for job in waiting:
            self._github.told(job, "completed")
