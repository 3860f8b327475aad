"""One answer for all who ask at about the same time: what is dear to find out is found out once.

Whoever asks while it is being found out waits for the same answer; whoever asks within `keep` seconds of it
gets it again. An error is told to those who waited for it and is not kept. A caller who leaves takes nothing
away from the others.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from muster.ports.clock import Clock

T = TypeVar("T")


class Shared(Generic[T]):
    def __init__(self, clock: Clock, *, keep: float) -> None:
        self._clock = clock
        self._keep = keep
        self._answers: dict[str, tuple[asyncio.Task[T], float]] = {}

    async def get(self, key: str, find: Callable[[], Coroutine[Any, Any, T]]) -> T:
        task = self._usable(key)
        if task is None:
            self._drop_old()
            task = asyncio.create_task(find())
            self._answers[key] = (task, self._clock.now())
        return await asyncio.shield(task)

    def _usable(self, key: str) -> asyncio.Task[T] | None:
        task, began = self._answers.get(key, (None, 0.0))
        if task is None or not task.done():
            return task
        if task.cancelled() or task.exception() is not None:
            return None
        return task if 0 <= self._clock.now() - began < self._keep else None

    def _drop_old(self) -> None:
        """So that answers nobody asks for again don't pile up."""
        self._answers = {key: kept for key, kept in self._answers.items() if self._usable(key) is not None}
