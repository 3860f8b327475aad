"""All simulated machines' agents, and what goes wrong with them: freezes, partitions, impostors, death."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from muster.domain.errors import Gone, MusterError, NotFound
from muster.domain.health import Health
from muster.domain.ids import AssignmentId, NodeId
from muster.enrolment.signals import Admission
from muster.plane import ControlPlane
from muster.ports.clock import Clock
from muster_simulation.agent import Agent, Fate, Habits, Program, Stint
from muster_simulation.cloud import Entry, SimulatedCloud
from muster_simulation.invariants.truth import Presence, Truth
from muster_simulation.life import outside
from muster_simulation.network import Network, Station, Unreachable
from muster_simulation.trace import FaultCounts, Trace
from muster_simulation.waves import BEAT, Waves

HOUR = 3600.0
BUSY = 0.5
"""The share of late boots that work all the time; the others stand still at their end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFaults:
    """Probabilities per machine (or per attach), ranges in seconds, rates per machine and hour."""

    before_join: tuple[float, float] = (5.0, 15.0)
    script: tuple[float, float] = (10.0, 40.0)
    attach: tuple[float, float] = (1.0, 4.0)
    detach: tuple[float, float] = (1.0, 4.0)
    poll: float = 50.0
    """Of the long poll. Shorter where wake-ups get lost, or nodes would learn of a claim too late."""
    unstreamed: float = 0.0
    """The share of machines behind a proxy that keeps the lines of streams back."""
    mute: float = 0.0
    stuck: float = 0.0
    broken: float = 0.0
    late: float = 0.0
    """Its script takes up to `lateness` seconds longer; a boot that stands still meanwhile ends after it was
    given up."""
    lateness: float = 300.0
    halts: float = 0.0
    """Stands still in the middle of its boot, as in a silent download, for a while."""
    halt: tuple[float, float] = (15.0, 200.0)
    slow: float = 0.0
    """Works all the time, for longer than it should, and names steps."""
    slowness: tuple[float, float] = (60.0, 500.0)
    mumbles: float = 0.0
    """Says `starting` for ever."""
    attach_hangs: float = 0.0
    detach_hangs: float = 0.0
    freezes: float = 0.0
    freeze: tuple[float, float] = (5.0, 240.0)
    partitions: float = 0.0
    partition: tuple[float, float] = (5.0, 240.0)
    impostors: float = 0.0
    """A second join with another key, per machine."""


HEALTHY = NodeFaults()


class Nodes:
    """Watches the cloud: a machine that is made gets an agent, one that is gone loses it."""

    def __init__(
        self,
        *,
        cloud: SimulatedCloud,
        network: Network,
        clock: Clock,
        random: Random,
        boots: Random,
        counts: FaultCounts,
        trace: Trace,
        installation_id: str,
        stations: Callable[[], Sequence[Station]],
        presence: Presence,
        finished: Callable[["asyncio.Task[None]"], None],
        recognised: Callable[[str, NodeId], None],
        faults: NodeFaults = HEALTHY,
        host: Callable[[str], Program] | None = None,
    ) -> None:
        """`host`: makes what a kit's program does, where there are kits."""
        self.faults = faults
        self.agents: dict[str, Agent] = {}
        """Of the machines that are not gone, by machine id."""
        self.truths: dict[str, Truth] = {}
        """Of all there ever were."""
        self._host = host
        self._cloud = cloud
        self._network = network
        self._clock = clock
        self._random = random
        self._boots = boots
        """Apart from the other chances, so that a new kind of boot leaves everything else as it was."""
        self._counts = counts
        self._trace = trace
        self._installation_id = installation_id
        self._finished = finished
        self._recognised = recognised
        self.waves = Waves(
            agents=self.agents,
            network=network,
            clock=clock,
            random=random,
            presence=presence,
            stations=stations,
            ask=self._ask,
            dead=self._dead,
        )

    # --- the cloud's watcher ----------------------------------------------------------------------

    def made(self, entry: Entry) -> None:
        if entry.installation_id != self._installation_id:
            return
        agent = Agent(
            entry,
            self._draw(),
            key=f"key-{self._random.getrandbits(64):016x}",
            host=self._host,
            network=self._network,
            now=self._clock.now,
            chance=self._random.random,
            finished=self._finished,
            power_off=self._power_off,
            moved=self._moved,
            recognised=self._recognised,
        )
        self.agents[entry.machine_id] = agent
        self.truths[entry.machine_id] = agent.truth
        outside(agent.start)
        for rate, strike in ((self.faults.freezes, self._freeze), (self.faults.partitions, self._partition)):
            if rate:
                self._cloud.later(self._random.expovariate(rate / HOUR), strike, agent)
        if self._random.random() < self.faults.impostors:
            self._cloud.later(self._random.uniform(0.0, 300.0), self._impersonate, agent)

    def gone(self, entry: Entry) -> None:
        agent = self.agents.pop(entry.machine_id, None)
        if agent is not None:
            self.waves.stir(agent)
            agent.life.kill()

    def acted(self, verb: str, subject: str, outcome: str) -> None:
        """What the cloud does concerns an agent only by its machine's end."""

    # --- heartbeats -------------------------------------------------------------------------------

    def _dead(self, agent: Agent) -> None:
        self._counts.add("dead man's switch")
        self._power_off(agent, "dead man")

    def _ask(self, agent: Agent) -> None:
        self._cloud.later(0.0, self._run_beat, agent)

    def _run_beat(self, agent: Agent) -> None:
        self._run(self._beat_in_full(agent))

    def _run(self, coro: Coroutine[Any, Any, None]) -> None:
        asyncio.get_running_loop().create_task(coro).add_done_callback(self._finished)

    async def _beat_in_full(self, agent: Agent) -> None:
        node_id = agent.node_id
        if node_id is None or not agent.life.alive:
            return
        activity = agent.activity if agent.booting else None

        async def arrived(plane: ControlPlane) -> None:
            agent.truth.reached_at = self._clock.now()
            await plane.enrolment.beat(node_id, activity=activity, said=agent.says)

        try:
            # A beat is not repeated: the next one says more.
            await self._network.call(arrived, timeout=BEAT, repeatable=False)
        except (NotFound, Gone):
            self._power_off(agent, "told to leave")
        except (MusterError, Unreachable):
            return

    # --- what goes wrong --------------------------------------------------------------------------

    def _draw(self) -> Habits:
        faults, random = self.faults, self._random
        roll = random.random()
        fate = Fate.FINE
        for candidate, share in (
            (Fate.MUTE, faults.mute),
            (Fate.STUCK, faults.stuck),
            (Fate.BROKEN, faults.broken),
        ):
            if roll < share:
                fate = candidate
                self._counts.add(f"node: {candidate}")
                break
            roll -= share
        late = random.random() < faults.late
        if late:
            self._counts.add("node: late")
        return Habits(
            fate=fate,
            before_join=random.uniform(*faults.before_join),
            boot=self._draw_boot(
                random.uniform(*faults.script),
                random.uniform(0.2, 1.0) * faults.lateness if late else 0.0,
            ),
            attach=random.uniform(*faults.attach),
            detach=random.uniform(*faults.detach),
            attach_hangs=faults.attach_hangs,
            detach_hangs=faults.detach_hangs,
            poll=faults.poll,
            streams=self._boots.random() >= faults.unstreamed,
            says=Health.STARTING if self._boots.random() < faults.mumbles else None,
        )

    def _draw_boot(self, script: float, lateness: float) -> tuple[Stint, ...]:
        faults, random = self.faults, self._boots
        stints = [Stint(seconds=script)]
        if random.random() < faults.slow:
            self._counts.add("boot: slow")
            parts = random.randint(1, 4)
            longer = random.uniform(*faults.slowness) / parts
            stints += [Stint(seconds=longer, step=f"part {number}") for number in range(parts)]
        if random.random() < faults.halts:
            self._counts.add("boot: stands still")
            stints.insert(
                random.randint(0, len(stints)), Stint(seconds=random.uniform(*faults.halt), works=False)
            )
        if lateness:
            stints.append(Stint(seconds=lateness, works=random.random() < BUSY))
        return tuple(stints)

    def _freeze(self, agent: Agent) -> None:
        if agent.life.alive and self.faults.freezes:
            self._counts.add("node: frozen")
            loop = asyncio.get_running_loop()
            seconds = self._random.uniform(*self.faults.freeze)
            self.waves.stir(agent)
            agent.life.pause(loop.time() + seconds)
            agent.disturbed_until = max(agent.disturbed_until, self._clock.now() + seconds)
            self._cloud.later(self._random.expovariate(self.faults.freezes / HOUR), self._freeze, agent)

    def _partition(self, agent: Agent) -> None:
        if agent.life.alive and self.faults.partitions:
            self._counts.add("node: cut off")
            self.waves.stir(agent)
            agent.partitioned_until = self._clock.now() + self._random.uniform(*self.faults.partition)
            agent.disturbed_until = max(agent.disturbed_until, agent.partitioned_until)
            self._cloud.later(self._random.expovariate(self.faults.partitions / HOUR), self._partition, agent)

    def _impersonate(self, agent: Agent) -> None:
        if agent.life.alive and self.faults.impostors:
            self._counts.add("node: impostor")
            self._run(self._second_join(agent))

    async def _second_join(self, agent: Agent) -> None:
        def joins(plane: ControlPlane) -> Coroutine[Any, Any, Admission]:
            return plane.enrolment.join(agent.proof, key="another", boot_id="another")

        try:
            # Of a machine that never says a word, the impostor's join is what is heard.
            await self._network.call(lambda plane: agent.worked_on(joins, plane), timeout=10.0)
        except (MusterError, Unreachable):
            return

    def _power_off(self, agent: Agent, why: str) -> None:
        self._trace.remark(self._clock.now(), f"agent {agent.machine_id} powers off: {why}")
        self._cloud.end(agent.machine_id, "powered off")

    def _moved(self, agent: Agent, assignment: AssignmentId | None) -> None:
        self._trace.remark(self._clock.now(), f"agent {agent.machine_id} is attached to {assignment}")
