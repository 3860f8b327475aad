"""Since when the world is watched: asked by everyone who judges time, and told to the store by asking.

Nobody is called late or silent for time in which no replica looked. Asking ticks, at most every few seconds.
"""

from muster.domain.deadlines import HARD, Limits, Watch
from muster.domain.operation import Operation
from muster.ports.clock import Clock
from muster.ports.store import Store

TICK_EVERY = 5.0


class Watching:
    def __init__(self, store: Store, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._clock = clock
        self._limits = limits
        self._watch: Watch | None = None
        self._ticked_at = 0.0

    async def look(self) -> Watch:
        now = self._clock.now()
        if self._watch is None or now - self._ticked_at >= TICK_EVERY:
            self._watch = await self._store.watch(
                now=now, gap=self._limits.stale_after, grace=self._limits.return_grace
            )
            self._ticked_at = now
        return self._watch

    async def due(self, operation: Operation) -> float:
        """When the operation's deadline counts as passed. A limit that the caller named is hard."""
        if operation.deadline_source == HARD:
            return operation.deadline_at
        return (await self.look()).due(operation.deadline_at, self._limits)
