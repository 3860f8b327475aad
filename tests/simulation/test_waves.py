"""The beats of simulated agents: all that can beat do, in each wave, whether in step or each by itself."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from muster.domain.health import Health
from muster.domain.ids import NodeId
from muster_simulation.invariants.truth import Presence, Truth
from muster_simulation.life import Life
from muster_simulation.loop import VirtualClock, run, running_loop
from muster_simulation.network import NetworkFaults
from muster_simulation.waves import BEAT, WRITTEN, Waves

MANY = 60
PATIENCE = 400.0


@dataclass
class Agent:
    """As much of an agent as beats."""

    node_id: NodeId
    life: Life
    truth: Truth = field(default_factory=lambda: Truth(booted=True))
    says: Health | None = None
    working: bool = False
    activity: int = 0
    heard_at: float = 0.0
    dead_man: float = PATIENCE
    partitioned_until: float = 0.0

    def work(self) -> None:
        self.activity += 1


@dataclass
class Replica:
    """As much of a replica as takes beats."""

    life: Life
    arrived_by: float = 0.0
    came: list[NodeId] = field(default_factory=list)
    told: list[tuple[NodeId, int | None, Health | None]] = field(default_factory=list)

    @property
    def plane(self) -> Any:
        return SimpleNamespace(enrolment=SimpleNamespace(heartbeats=self))

    def alive(self, node_ids: Iterable[NodeId], arrived_at: float) -> None:
        self.came += node_ids

    def beat(
        self, node_id: NodeId, *, activity: int | None, said: Health | None, arrived_at: float | None
    ) -> None:
        self.came.append(node_id)
        if activity is not None or said is not None:
            self.told.append((node_id, activity, said))


class Site:
    def __init__(self, *, replicas: int = 1, lost_beat: float = 0.0) -> None:
        self.agents = {
            f"i-{number}": Agent(NodeId(f"node-{number}"), Life(f"i-{number}")) for number in range(MANY)
        }
        self.replicas = [Replica(Life(f"replica-{number}")) for number in range(replicas)]
        self.asked: list[NodeId] = []
        self.dead: list[tuple[float, NodeId]] = []
        self.clock = VirtualClock(running_loop(), epoch=1000.0)
        for agent in self.agents.values():
            agent.heard_at = self.clock.now()
        faults = SimpleNamespace(faults=NetworkFaults(lost_beat=lost_beat))
        parts: dict[str, Any] = {"agents": self.agents, "network": faults, "stations": lambda: self.replicas}
        self.waves = Waves(
            **parts,
            clock=self.clock,
            random=Random(7),
            presence=Presence(),
            ask=lambda agent: self.asked.append(agent.node_id),  # type: ignore[arg-type]
            dead=self._dead,
        )
        self.rolling = running_loop().create_task(self.waves.roll())

    def _dead(self, agent: Any) -> None:
        self.dead.append((self.clock.now(), agent.node_id))
        self.lose(agent)

    def lose(self, agent: Any) -> None:
        self.waves.stir(agent)
        del self.agents[agent.life.name]

    async def wave(self) -> list[NodeId]:
        """Let one more wave come. Return who beat in it."""
        for replica in self.replicas:
            replica.came.clear()
            replica.told.clear()
        self.asked.clear()
        await self.clock.sleep(BEAT)
        return sorted([*self.asked, *(node_id for replica in self.replicas for node_id in replica.came)])

    def but(self, *agents: Agent) -> list[NodeId]:
        return sorted(each.node_id for each in self.agents.values() if each not in agents)


@pytest.mark.parametrize("replicas", [1, 2])
def test_every_agent_beats_once_in_each_wave_and_one_of_many_goes_the_whole_way(replicas: int) -> None:
    async def main() -> None:
        site = Site(replicas=replicas)
        await site.clock.sleep(BEAT / 2)
        asked = 0
        for _ in range(100):
            assert await site.wave() == site.but()
            asked += len(site.asked)
        assert 60 <= asked <= 140

    run(main())


def test_an_agent_that_is_frozen_or_cut_off_or_gone_does_not_beat_until_it_is_well() -> None:
    async def main() -> None:
        site = Site()
        await site.clock.sleep(BEAT / 2)
        await site.wave()
        frozen, cut_off, gone, *_ = site.agents.values()
        for agent in (frozen, cut_off):
            site.waves.stir(agent)  # type: ignore[arg-type]
        frozen.life.pause(running_loop().time() + 2 * BEAT)
        cut_off.partitioned_until = site.clock.now() + 3 * BEAT
        site.lose(gone)
        assert await site.wave() == site.but(frozen, cut_off)
        assert await site.wave() == site.but(frozen, cut_off)
        assert await site.wave() == site.but(cut_off)
        assert await site.wave() == site.but()
        assert gone.truth.reached_at < frozen.truth.reached_at == cut_off.truth.reached_at

    run(main())


def test_who_hears_nothing_for_too_long_ends_in_the_next_wave() -> None:
    async def main() -> None:
        site = Site()
        await site.clock.sleep(BEAT / 2)
        deaf, *others = site.agents.values()
        while not site.dead:
            await site.wave()
            for agent in others:
                agent.heard_at = site.clock.now()
            assert site.clock.now() < deaf.heard_at + PATIENCE + 2 * BEAT
        ((at, node_id),) = site.dead
        assert node_id == deaf.node_id
        assert 0.0 < at - deaf.heard_at - PATIENCE <= BEAT

    run(main())


def test_a_boot_tells_how_far_it_is_and_a_node_what_it_says() -> None:
    async def main() -> None:
        site = Site()
        await site.clock.sleep(BEAT / 2)
        booting, talking, *_ = site.agents.values()
        booting.truth.booted, booting.working, talking.says = False, True, Health.STARTING
        for activity in (1, 2, 3):
            assert await site.wave() == site.but()
            told = [(booting.node_id, activity, None), (talking.node_id, None, Health.STARTING)]
            assert site.replicas[0].told == [each for each in told if each[0] not in site.asked]

    run(main())


def test_beats_count_as_stored_once_their_replica_was_steady_for_a_while() -> None:
    async def main() -> None:
        site = Site()
        await site.clock.sleep(BEAT / 2)
        steady = next(iter(site.agents.values())).truth
        await site.wave()
        first = steady.reached_at
        while site.clock.now() < first + WRITTEN:
            assert steady.beat_at == 0.0
            await site.wave()
        await site.wave()
        assert steady.beating_since is not None
        assert first <= steady.beating_since <= steady.beat_at <= site.clock.now() - WRITTEN

    run(main())


def test_no_beat_reaches_a_replica_that_stands_still() -> None:
    async def main() -> None:
        site = Site()
        await site.clock.sleep(BEAT / 2)
        await site.wave()
        site.replicas[0].life.pause(running_loop().time() + BEAT)
        assert await site.wave() == []
        assert await site.wave() == site.but()

    run(main())
