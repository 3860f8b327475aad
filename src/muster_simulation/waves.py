"""Heartbeats of all simulated agents: in waves, five seconds apart, so that a beat is no task and no timer.

Most of what a simulation does is beating. So agents to which nothing happens beat in step: their replica
takes all of them at once. The wave also serves the dead man's switch.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from math import inf
from random import Random

from muster.domain.ids import NodeId
from muster.ports.clock import Clock
from muster_simulation.agent import Agent
from muster_simulation.invariants.truth import Presence, Truth, beaten
from muster_simulation.network import Network, Station
from muster_simulation.replicas import STORE

BEAT = 5.0
WRITTEN = 10.0
"""Seconds after which a beat is certainly in the store, if its replica lives.

Beats are flushed every second, by a store that may be slow or refuse a few times.
"""
ASKED = 0.02
"""The share of beats that go the whole way through the enrolment: of each wave this share, and one at most
on average."""
LOOKED = 60.0
"""Seconds between two looks at those in step, at most."""


class _Sent:
    """The beats of one wave on their way from one replica to the store."""

    def __init__(self, *, at: float, station: Station) -> None:
        self.at = at
        self.station = station.life.name
        self.shut = station.life.shut
        self.heartbeats = station.plane.enrolment.heartbeats
        self.arrived_by = self.heartbeats.arrived_by
        self.truths: list[Truth] = []
        self.advanced: list[Truth] = []
        """Those whose boot showed an advance."""


class Waves:
    def __init__(
        self,
        *,
        agents: Mapping[str, Agent],
        network: Network,
        clock: Clock,
        random: Random,
        presence: Presence,
        stations: Callable[[], Sequence[Station]],
        ask: Callable[[Agent], None],
        dead: Callable[[Agent], None],
    ) -> None:
        """`ask`: sends an agent's beat the whole way. `dead`: called for agents that heard nothing for too
        long."""
        self._agents = agents
        self._network = network
        self._clock = clock
        self._random = random
        self._presence = presence
        self._stations = stations
        self._ask = ask
        self._dead = dead
        self._in_step: dict[NodeId, Agent] = {}
        """Those that do nothing but beat. Who does something to one of them says so (`stir`)."""
        self._look_at = 0.0
        """When those in step are looked at: the first of them may have heard nothing for too long."""
        self._sent: deque[_Sent] = deque()

    async def roll(self) -> None:
        while True:
            await asyncio.sleep(BEAT)
            self._wave()

    def stir(self, agent: Agent) -> None:
        """Let an agent beat by itself until nothing happens to it any more: it is frozen, cut off or gone."""
        if agent.node_id is not None:
            self._in_step.pop(agent.node_id, None)

    def _wave(self) -> None:
        now = self._clock.now()
        self._confirm(now)
        agents = tuple(self._agents.values())
        asked = min(ASKED, 1.0 / len(agents)) if agents else 0.0
        sent = [_Sent(at=now, station=station) for station in self._stations()]
        if len(sent) == 1 and not self._network.faults.lost_beat:
            stepped = self._step(sent[0], asked)
            if len(stepped) < len(agents):
                self._each([agent for agent in agents if agent.node_id not in stepped], sent, asked)
        else:
            self._in_step.clear()
            self._each(agents, sent, asked)
        self._sent += sent

    def _step(self, wave: _Sent, asked: float) -> dict[NodeId, Agent]:
        """Let those in step beat together. Return them."""
        now = wave.at
        if now >= self._look_at:
            self._look(now)
        in_step = beating = self._in_step
        if wave.shut or not in_step:
            return in_step
        if self._random.random() < asked * len(in_step):
            beating = dict(in_step)
            self._ask(beating.pop(self._random.choice(tuple(in_step))))
        wave.heartbeats.alive(beating, wave.arrived_by)
        for agent in beating.values():
            agent.truth.reached_at = now
        wave.truths = [agent.truth for agent in beating.values()]
        return in_step

    def _look(self, now: float) -> None:
        """Drop those that heard nothing for too long. Any word gives an agent longer than LOOKED."""
        self._in_step = {
            node_id: agent
            for node_id, agent in self._in_step.items()
            if now - agent.heard_at <= agent.dead_man and agent.node_id == node_id
        }
        ends = [agent.heard_at + agent.dead_man for agent in self._in_step.values()]
        self._look_at = min(now + LOOKED, min(ends, default=inf))

    def _each(self, agents: Sequence[Agent], sent: Sequence[_Sent], asked: float) -> None:
        lost = self._network.faults.lost_beat
        chance = self._random.random
        now = self._clock.now()
        for agent in agents:
            if agent.life.shut:
                continue
            if agent.working:
                agent.work()
            if now - agent.heard_at > agent.dead_man:
                self._dead(agent)
                continue
            node_id = agent.node_id
            if node_id is None or now < agent.partitioned_until or (lost and chance() < lost):
                continue
            if not sent:
                continue
            wave = sent[0] if len(sent) == 1 else self._random.choice(sent)
            if wave.shut:
                continue
            if chance() < asked:
                self._ask(agent)
                continue
            self._beat(agent, node_id, wave)
            if len(sent) == 1 and not lost and agent.truth.booted and agent.says is None:
                self._in_step[node_id] = agent
                self._look_at = min(self._look_at, agent.heard_at + agent.dead_man)

    def _beat(self, agent: Agent, node_id: NodeId, wave: _Sent) -> None:
        """Do what `Enrolment.beat` does for nodes that aren't terminated, without its look at the record."""
        truth = agent.truth
        activity = None if truth.booted else agent.activity
        wave.heartbeats.beat(node_id, activity=activity, said=agent.says, arrived_at=wave.arrived_by)
        truth.reached_at = wave.at
        wave.truths.append(truth)
        if agent.working:
            wave.advanced.append(truth)

    def _confirm(self, now: float) -> None:
        """Beats that came to a replica to which nothing happened since a while before are written by now."""
        while self._sent and now - self._sent[0].at >= WRITTEN:
            sent = self._sent.popleft()
            if self._presence.steady(sent.at - WRITTEN, sent.station, STORE):
                beaten(sent.truths, sent.at)
                for truth in sent.advanced:
                    truth.advance_at = sent.at
