"""Scale sets in storms: jobs, deaths, pauses and faults in an order that a seed draws.

The rules are the same in each. Every job is served within a bound while there is room. There are never more
runners than the set may have. No job runs twice. Nothing is left.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from fakes.github import Job
from muster.domain.lifecycle import NodeState
from muster.domain.template import Reuse
from tests.harness import Harness, Replica, with_harness
from tests.harness.scale_sets import ScaleSetHarness

MOST = 4
ACTS = 30
BOUND = 1800.0
"""Seconds after the storm in which every job must be over. Sessions, leases, back-offs and boots add up."""
SEEDS = range(4)
FAULTS = ("/queue/", "/sessions", "generatejitconfig", "agents", "runnerscalesets", "acquirejobs")


class Storm:
    def __init__(self, harness: Harness, github: ScaleSetHarness, chance: Random) -> None:
        self._stage = harness
        self._github = github
        self._sets = github.world.sets
        self._chance = chance
        self._replicas: list[Replica] = []
        self.jobs: list[Job] = []
        self._acts: tuple[Callable[[], Awaitable[None]], ...] = (
            self._queue,
            self._queue,
            self._queue,
            self._kill,
            self._stop,
            self._trouble,
            self._trouble,
            self._fault,
            self._fault,
            self._lose_machine,
        )

    async def rage(self) -> None:
        self._replicas = [await self._stage.replica() for _ in range(2)]
        for _ in range(ACTS):
            await self._chance.choice(self._acts)()
            await self._stage.pass_time(self._chance.choice((0.1, 1.0, 5.0, 20.0, 60.0)))
            assert len(self._github.living()) <= MOST
        self._github.world.faults.clear()

    async def _queue(self) -> None:
        lasts = self._chance.choice((0.5, 5.0, 90.0))
        self.jobs += self._github.queue(self._chance.randint(1, 4), lasts=lasts)

    async def _kill(self) -> None:
        """A replica dies, another starts."""
        dying = self._chance.choice(self._replicas)
        dying.life.kill()
        self._replicas.remove(dying)
        self._replicas.append(await self._stage.replica())

    async def _stop(self) -> None:
        until = asyncio.get_running_loop().time() + self._chance.choice((5.0, 40.0, 150.0))
        self._chance.choice(self._replicas).life.pause(until)

    async def _trouble(self) -> None:
        sets = self._sets.of("acme/shop")
        troubles: list[Callable[[], None]] = [
            lambda: self._sets.expire("admin"),
            lambda: self._sets.expire("queue"),
        ]
        if sets:
            troubles += [
                lambda: self._sets.evict(sets[0]),
                lambda: self._sets.vanish(sets[0]),
                lambda: self._sets.restart_ids(sets[0]),
                lambda: self._sets.repeat(sets[0]),
            ]
        self._chance.choice(troubles)()

    async def _fault(self) -> None:
        pattern, status = self._chance.choice(FAULTS), self._chance.choice((0, 429, 500, 503))
        performed = not status and self._chance.random() < 0.5
        self._github.world.fault(pattern, status, performed=performed, times=self._chance.randint(1, 4))

    async def _lose_machine(self) -> None:
        """A machine dies before its runner has a job: GitHub gives that job to another runner."""
        for node in await self._stage.nodes(NodeState.RUNNING):
            own = f"-{node.assignment_id}"
            runner = next((each for each in self._github.living() if each.name.endswith(own)), None)
            if runner is not None and not runner.busy:
                self._github.dead.add(runner.name)
                runner.seen_at, runner.session = 0.0, False
                self._stage.agents.of(node.id).die()
                self._stage.cloud.end(node.machine_id)
                return


@pytest.mark.parametrize("seed", SEEDS)
def test_every_job_is_served_once_whatever_happens(seed: int) -> None:
    @with_harness
    async def scenario(harness: Harness) -> None:
        chance = Random(seed)
        reuse = chance.choice((Reuse.NEVER, Reuse.SAME_OWNER))
        runner = {"max_runners": MOST, "min_idle": chance.choice((0, 1))}
        github = await ScaleSetHarness.listening(harness, runner=runner, reuse=reuse, idle_timeout=120.0)
        github.world.sets.offers = chance.random() < 0.3
        storm = Storm(harness, github, chance)
        await storm.rage()
        await github.done(storm.jobs, within=BOUND)
        assert github.crowd <= MOST
        assert sorted(github.served) == sorted(job.name for job in storm.jobs)

    scenario()
