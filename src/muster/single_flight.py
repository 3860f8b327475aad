"""Share one answer among callers that ask at about the same time.

A caller that leaves takes nothing away from the others. An error goes to those who waited and is not kept.
"""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from math import inf
from typing import Any, Generic, TypeVar

from muster.ports.clock import Clock

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class SingleFlight(Generic[K, T]):
    """One running call per key.

    `get` joins a call that began at most `join` seconds ago, or one that was answered and began within `keep`
    seconds. `get_later` returns an answer that begins after the call, because an earlier one may lack the
    caller's news.
    """

    def __init__(self, clock: Clock | None = None, *, keep: float = 0.0, join: float = inf) -> None:
        self._clock = clock
        self._keep = keep
        self._join = join
        self._answers: dict[K, tuple[asyncio.Task[T], float]] = {}
        self._waiting: dict[K, asyncio.Task[T]] = {}

    async def get(self, key: K, find: Callable[[], Coroutine[Any, Any, T]]) -> T:
        task = self._usable(key)
        if task is not None and task.done():
            return task.result()
        return await asyncio.shield(self._begin(key, find()) if task is None else task)

    async def get_later(self, key: K, find: Callable[[], Coroutine[Any, Any, T]]) -> T:
        task = self._waiting.get(key)
        if task is None:
            before, _ = self._answers.get(key, (None, 0.0))
            task = self._waiting[key] = self._begin(key, self._after(key, before, find))
        return await asyncio.shield(task)

    def forget(self, key: K) -> None:
        """Drop the kept answer, so that later callers get a new one."""
        self._answers.pop(key, None)

    def _begin(self, key: K, find: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        self._drop_old()
        task = asyncio.create_task(find)
        task.add_done_callback(_noted)
        self._answers[key] = (task, self._now())
        return task

    async def _after(
        self, key: K, before: asyncio.Task[T] | None, find: Callable[[], Coroutine[Any, Any, T]]
    ) -> T:
        if before is not None and not before.done():
            await asyncio.wait([before])
        del self._waiting[key]
        return await find()

    def _usable(self, key: K) -> asyncio.Task[T] | None:
        task, began = self._answers.get(key, (None, 0.0))
        if task is None:
            return None
        age = self._now() - began
        if not task.done():
            return task if age < self._join else None
        if task.cancelled() or task.exception() is not None:
            return None
        return task if 0 <= age < self._keep else None

    def _drop_old(self) -> None:
        """Drop answers that are too old to be used again."""
        self._answers = {key: kept for key, kept in self._answers.items() if self._usable(key) is not None}

    def _now(self) -> float:
        return 0.0 if self._clock is None else self._clock.now()


def _noted(task: "asyncio.Task[T]") -> None:
    """Retrieve the error of a call that every caller left, so that asyncio logs no warning."""
    if not task.cancelled():
        task.exception()
