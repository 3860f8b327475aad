"""Run the replicas: start, crash, pause and restart them over the one store.

Decides which replica lives and when. A crash comes at a moment in time, or at a chosen step of a store verb,
e.g. between a commit and its reply. A restarted replica is a new Life with a new owner.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from muster.plane import ControlPlane
from muster.ports.clock import Clock
from muster_simulation.invariants.truth import Presence
from muster_simulation.life import Life, outside
from muster_simulation.network import Network
from muster_simulation.storage import StoreFaults, StorePath
from muster_simulation.trace import FaultCounts, Trace

HOUR = 3600.0
STORE = "the store"
STEPS = 40
"""Crashes and pauses that wait for a step of a store write fall within this many."""
TARGETS = (
    "claim",
    "reserve",
    "write_launch",
    "settle",
    "apply",
    "apply_all",
    "write_operation",
    "complete",
)
TARGET_STEPS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFaults:
    """Rates per replica and hour, ranges in seconds."""

    crashes: float = 0.0
    restart: tuple[float, float] = (1.0, 150.0)
    pauses: float = 0.0
    pause: tuple[float, float] = (5.0, 400.0)
    """Up to far beyond a lease, and beyond a launch's window."""
    outages: float = 0.0
    """Of the store, for all replicas."""
    outage: tuple[float, float] = (2.0, 60.0)
    absences: float = 0.0
    """Of the control plane as a whole: all replicas are down, and come back together."""
    absence: tuple[float, float] = (25.0, 300.0)
    ambushed: float = 0.7
    """The share of crashes and pauses that wait for a step of a store write; the others come at any time."""
    targeted: float = 0.6
    """Of those, the share that waits for a verb that decides an operation or a node."""
    targets: tuple[str, ...] = TARGETS


STEADY = ReplicaFaults()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replica:
    index: int
    life: Life
    plane: ControlPlane
    path: StorePath


class Replicas:
    def __init__(
        self,
        count: int,
        *,
        build: Callable[[str, StorePath], ControlPlane],
        store_faults: StoreFaults,
        clock: Clock,
        random: Random,
        counts: FaultCounts,
        trace: Trace,
        failed: Callable[[BaseException], None],
        faults: ReplicaFaults = STEADY,
    ) -> None:
        self.faults = faults
        self._slots: list[Replica | None] = [None] * count
        self.there: tuple[Replica, ...] = ()
        """Those of the slots that live, in their order."""
        self._build = build
        self._store_faults = store_faults
        self._clock = clock
        self._random = random
        self._counts = counts
        self._trace = trace
        self._failed = failed
        self._network: Network | None = None
        self._starts = 0
        self._away_until = 0.0
        self.presence = Presence()

    def connect(self, network: Network) -> None:
        self._network = network

    # --- who is there -----------------------------------------------------------------------------

    def pick(self) -> Replica | None:
        """One that accepts connections: a paused one does too, and answers when it wakes."""
        there = self.there
        if len(there) > 1:
            return self._random.choice(there)
        return there[0] if there else None

    @property
    def healthy(self) -> bool:
        """Return whether a replica lives, runs, and can reach the store."""
        running = any(not replica.life.shut for replica in self.there)
        return running and not self._store_faults.down

    @property
    def calm(self) -> bool:
        return self.healthy and self._clock.now() > self.presence.calm_since

    # --- life and death ---------------------------------------------------------------------------

    def start(self, index: int) -> None:
        if self._slots[index] is not None:
            return
        still_away = self._away_until - self._clock.now()
        if still_away > 0.0:
            self._later(still_away, self.start, index)
            return
        self._starts += 1
        owner = f"replica-{index}.{self._starts}"
        path = StorePath(self._store_faults)
        replica = Replica(index=index, life=Life(owner), plane=self._build(owner, path), path=path)
        self._fill(index, replica)
        self._remark(f"{owner} starts", owner)
        outside(replica.life.spawn, replica.plane.run()).add_done_callback(self._ended)

    def _fill(self, index: int, replica: Replica | None) -> None:
        self._slots[index] = replica
        self.there = tuple(each for each in self._slots if each is not None)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        self._failed(error or RuntimeError("a replica stopped by itself"))

    def crash(self, replica: Replica) -> None:
        """Kill -9, now."""
        if not replica.life.alive:
            return
        self._counts.add("replica crashed")
        replica.life.kill()
        self._fill(replica.index, None)
        self._remark(f"{replica.life.name} crashes", replica.life.name)
        if self._network is not None:
            self._network.cut(replica.life)
        self._later(self._random.uniform(*self.faults.restart), self.start, replica.index)

    def pause(self, replica: Replica) -> None:
        if not replica.life.alive or replica.life.paused:
            return
        seconds = self._random.uniform(*self.faults.pause)
        name = replica.life.name
        self._counts.add("replica paused")
        replica.life.pause(asyncio.get_running_loop().time() + seconds)
        self._remark(f"{name} stands still for {seconds:.0f} s", name)
        self._later(seconds, self._remark, f"{name} goes on", name)

    @property
    def share_of_crashes(self) -> float:
        """Of crashes and pauses together; 0 without both."""
        rate = self.faults.crashes + self.faults.pauses
        return self.faults.crashes / rate if rate else 0.0

    def strike(self, owner: str, *, kills: bool) -> None:
        """Crash or pause the replica of this name, now."""
        for replica in self.there:
            if replica.life.name == owner:
                (self.crash if kills else self.pause)(replica)

    async def trouble(self, index: int) -> None:
        """Crash and pause the replica in this slot, again and again, until there are no such faults."""
        while True:
            rate = self.faults.crashes + self.faults.pauses
            if not rate:
                return
            await asyncio.sleep(self._random.expovariate(rate / HOUR))
            replica = self._slots[index]
            if replica is None or not rate or not self.faults.crashes + self.faults.pauses:
                continue
            strike = self.crash if self._random.random() * rate < self.faults.crashes else self.pause
            if self._random.random() < self.faults.ambushed:
                self._lie_in_wait(replica, strike)
            else:
                strike(replica)

    def _lie_in_wait(self, replica: Replica, strike: Callable[[Replica], None]) -> None:
        async def act() -> None:
            if self.faults is STEADY:
                return
            outside(strike, replica)
            if not replica.life.alive:
                await replica.life.die()

        if self._random.random() < self.faults.targeted:
            verb = self._random.choice(self.faults.targets)
            replica.path.ambush(self._random.randrange(1, TARGET_STEPS), act, verb=verb)
        else:
            replica.path.ambush(self._random.randrange(1, STEPS), act)

    async def black_out(self) -> None:
        """Outages of the store."""
        while self.faults.outages:
            await asyncio.sleep(self._random.expovariate(self.faults.outages / HOUR))
            if not self.faults.outages:
                return
            self._counts.add("store: outage")
            self._store_faults.down = True
            self._remark("the store is out of reach", STORE)
            await asyncio.sleep(self._random.uniform(*self.faults.outage))
            self._store_faults.down = False
            self._remark("the store is back", STORE)

    async def go_away(self) -> None:
        """All at once, and for a while."""
        while self.faults.absences:
            await asyncio.sleep(self._random.expovariate(self.faults.absences / HOUR))
            if not self.faults.absences:
                return
            seconds = self._random.uniform(*self.faults.absence)
            self._counts.add("control plane away")
            self._away_until = self._clock.now() + seconds
            for replica in self.there:
                self.crash(replica)
            await asyncio.sleep(seconds)

    def settle(self) -> None:
        """No more trouble: every replica that isn't there is started."""
        self.faults = STEADY
        self._away_until = 0.0
        self._store_faults.down = False
        self._remark("no more trouble", STORE)
        for index in range(len(self._slots)):
            self.start(index)

    def _remark(self, text: str, *who: str) -> None:
        now = self._clock.now()
        self.presence.note(now, there=self.healthy, who=who)
        self._trace.remark(now, text)

    def _later(self, delay: float, act: Callable[..., None], *args: object) -> None:
        outside(asyncio.get_running_loop().call_later, delay, act, *args)
