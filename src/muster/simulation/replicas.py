"""The replicas: started, crashed, paused, restarted. All work over the one store.

Owns which replica lives and when. A crash comes at a moment in time, or at a chosen step of a store verb:
between a commit and its reply is where it hurts. A restarted replica is a new Life with a new owner.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from muster.plane import ControlPlane
from muster.ports.clock import Clock
from muster.simulation.life import Life, outside
from muster.simulation.network import Network
from muster.simulation.storage import Shore, StorePath
from muster.simulation.tally import Tally
from muster.simulation.trace import Trace

HOUR = 3600.0
SETTLING = 75.0
"""After a crash or a pause, this long isn't calm: a lease must lapse before anybody can take over."""
AMBUSHED = 0.7
"""The share of crashes and pauses that wait for a step of a store write; the others come at any time."""
STEPS = 40
"""They fall within this many steps."""
TARGETED = 0.6
"""The share of those that wait for one of the writes in which an operation's fate is decided."""
TARGETS = ("claim", "reserve", "write_launch", "settle", "apply", "write_operation")
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
    """Of the store, for everybody."""
    outage: tuple[float, float] = (2.0, 60.0)


STEADY = ReplicaFaults()


@dataclass(frozen=True, slots=True, kw_only=True)
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
        shore: Shore,
        clock: Clock,
        random: Random,
        tally: Tally,
        trace: Trace,
        failed: Callable[[BaseException], None],
        faults: ReplicaFaults = STEADY,
    ) -> None:
        self.faults = faults
        self._slots: list[Replica | None] = [None] * count
        self._build = build
        self._shore = shore
        self._clock = clock
        self._random = random
        self._tally = tally
        self._trace = trace
        self._failed = failed
        self._network: Network | None = None
        self._starts = 0
        self._disturbed_at = 0.0

    def connect(self, network: Network) -> None:
        self._network = network

    # --- who is there -----------------------------------------------------------------------------

    def pick(self) -> Replica | None:
        """One that accepts connections: a paused one does too, and answers when it wakes."""
        there = [replica for replica in self._slots if replica is not None]
        return self._random.choice(there) if there else None

    @property
    def healthy(self) -> bool:
        """Somebody lives, runs, and can reach the store."""
        running = any(replica is not None and not replica.life.shut for replica in self._slots)
        return running and not self._shore.down

    @property
    def calm(self) -> bool:
        return self.healthy and self._clock.now() - self._disturbed_at > SETTLING

    # --- life and death ---------------------------------------------------------------------------

    def start(self, index: int) -> None:
        if self._slots[index] is not None:
            return
        self._starts += 1
        owner = f"replica-{index}.{self._starts}"
        path = StorePath(self._shore)
        replica = Replica(index=index, life=Life(owner), plane=self._build(owner, path), path=path)
        self._slots[index] = replica
        self._remark(f"{owner} starts")
        outside(replica.life.spawn, replica.plane.run()).add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        self._failed(error or RuntimeError("a replica stopped by itself"))

    def crash(self, replica: Replica) -> None:
        """Kill -9, now."""
        if not replica.life.alive:
            return
        self._tally.add("replica crashed")
        self._remark(f"{replica.life.name} crashes")
        replica.life.kill()
        self._slots[replica.index] = None
        if self._network is not None:
            self._network.cut(replica.life)
        self._later(self._random.uniform(*self.faults.restart), self.start, replica.index)

    def pause(self, replica: Replica) -> None:
        if not replica.life.alive or replica.life.paused:
            return
        seconds = self._random.uniform(*self.faults.pause)
        self._tally.add("replica paused")
        self._remark(f"{replica.life.name} stands still for {seconds:.0f} s")
        replica.life.pause(asyncio.get_running_loop().time() + seconds)
        self._later(seconds, self._remark, f"{replica.life.name} goes on")

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
            if self._random.random() < AMBUSHED:
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

        if self._random.random() < TARGETED:
            verb = self._random.choice(TARGETS)
            replica.path.ambush(self._random.randrange(1, TARGET_STEPS), act, verb=verb)
        else:
            replica.path.ambush(self._random.randrange(1, STEPS), act)

    async def black_out(self) -> None:
        """Outages of the store."""
        while self.faults.outages:
            await asyncio.sleep(self._random.expovariate(self.faults.outages / HOUR))
            if not self.faults.outages:
                return
            self._tally.add("store: outage")
            self._remark("the store is out of reach")
            self._shore.down = True
            await asyncio.sleep(self._random.uniform(*self.faults.outage))
            self._shore.down = False
            self._remark("the store is back")

    def settle(self) -> None:
        """No more trouble: everybody who isn't there is started."""
        self.faults = STEADY
        self._shore.down = False
        for index in range(len(self._slots)):
            self.start(index)

    def _remark(self, text: str) -> None:
        self._disturbed_at = self._clock.now()
        self._trace.remark(self._disturbed_at, text)

    def _later(self, delay: float, act: Callable[..., None], *args: object) -> None:
        outside(asyncio.get_running_loop().call_later, delay, act, *args)
