"""Tell since when replicas watch without a gap, and how often nodes beat. Asking also stores that this
replica watches.

No node or operation is late or silent for time in which no replica looked. Writes at most every few
seconds.
"""

from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any

from muster.domain.command import Command
from muster.domain.deadlines import HARD, Limits, Watch
from muster.domain.errors import StoreUnavailable
from muster.domain.health import Silence, silence
from muster.domain.ids import NodeId
from muster.domain.operation import Operation
from muster.domain.settings import Settings
from muster.ports.bundle import Ports
from muster.ports.clock import Clock
from muster.ports.store import Store
from muster.single_flight import SingleFlight

TICK_EVERY = 5.0
TICKS = 4
"""So many ticks may fall into the shortest silence, at least. A longer time between two ticks is a gap."""


class WatchTracker:
    def __init__(self, store: Store, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._clock = clock
        self._limits = limits
        self._told = limits.beat_seconds
        every = min(TICK_EVERY, limits.stale_after / TICKS)
        self._ticks: SingleFlight[str, Watch] = SingleFlight(clock, keep=every, join=every)

    async def look(self) -> Watch:
        """Return the watch. All who ask at one moment share one read."""
        return await self._ticks.get("", self._tick)

    async def limits(self) -> Limits:
        """Return the limits as the present pace of beats makes them."""
        return (await self.look()).limits(self._limits, now=self._clock.now())

    async def beat_seconds(self) -> float:
        """Return the interval to tell a node. A store that is away changes nothing about it."""
        with suppress(StoreUnavailable):
            self._told = (await self.look()).beat_seconds(self._limits)
        return self._told

    async def set_beat(self, beat_seconds: float) -> Watch:
        """Let nodes be told this interval from now on."""
        self._ticks.forget("")
        return await self._ticks.get("", lambda: self._tick(beat_seconds))

    def _tick(self, beat: float | None = None) -> Coroutine[Any, Any, Watch]:
        """Tick, dated by the time of the question, however late the tick begins."""
        now, limits = self._clock.now(), self._limits
        return self._store.watch(now=now, gap=limits.stale_after, grace=limits.return_grace, beat=beat)

    async def due(self, operation: Operation) -> float:
        """Return when the operation's deadline counts as passed."""
        return operation.deadline_at if _hard(operation) else self.due_by(await self.look(), operation)

    def due_by(self, watch: Watch, operation: Operation) -> float:
        """Return `due` by a watch that the caller has."""
        return operation.deadline_at if _hard(operation) else watch.due(operation.deadline_at, self._limits)


def _hard(operation: Operation) -> bool:
    """Return whether the caller named the limit: then no absence moves it."""
    return operation.deadline_source == HARD


class SilentNodes:
    def __init__(self, ports: Ports, settings: Settings, watch_tracker: WatchTracker) -> None:
        self._ports = ports
        self._limits = settings.limits
        self._watch_tracker = watch_tracker

    async def under(self, commands: Sequence[Command]) -> Mapping[NodeId, Silence]:
        """Return the silence of each node that runs unfinished commands. Leaves out nodes that answer."""
        node_ids = list(dict.fromkeys(command.node_id for command in commands if not command.ended))
        if not node_ids:
            return {}
        watch = await self._watch_tracker.look()
        now = self._ports.clock.now()
        limits = watch.limits(self._limits, now=now)
        found = {
            node_id: silence(vitals, now=now, observing_since=watch.since, limits=limits)
            for node_id, vitals in (await self._ports.store.vitals(node_ids)).items()
        }
        return {node_id: each for node_id, each in found.items() if each is not None}
