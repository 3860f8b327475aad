"""Since when the world is watched: asked by everyone who judges time, and told to the store by asking.

Nobody is called late or silent for time in which no replica looked. Asking ticks, at most every few seconds.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

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
        self._tick: asyncio.Task[Watch] | None = None
        self._ticked_at = 0.0

    async def look(self) -> Watch:
        """However many ask at one moment, they ask once. One who leaves takes nothing from the others."""
        now = self._clock.now()
        if self._tick is None or now - self._ticked_at >= TICK_EVERY or _failed(self._tick):
            self._ticked_at = now
            self._tick = asyncio.create_task(self._ask(now))
        return await asyncio.shield(self._tick)

    def _ask(self, now: float) -> Coroutine[Any, Any, Watch]:
        return self._store.watch(now=now, gap=self._limits.stale_after, grace=self._limits.return_grace)

    async def due(self, operation: Operation) -> float:
        """When the operation's deadline counts as passed. A limit that the caller named is hard."""
        if operation.deadline_source == HARD:
            return operation.deadline_at
        return (await self.look()).due(operation.deadline_at, self._limits)


def _failed(tick: "asyncio.Task[Watch]") -> bool:
    return tick.done() and (tick.cancelled() or tick.exception() is not None)
