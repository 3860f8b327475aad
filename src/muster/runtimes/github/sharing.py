"""Looks that are shared: however many ask, at most one look is under way and one waits for it."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Shared(Generic[K, T]):
    """Each caller gets a look that began after he asked: an earlier one may not show what he came for."""

    def __init__(self, look: Callable[[K], Awaitable[T]]) -> None:
        self._look = look
        self._waiting: dict[K, asyncio.Task[T]] = {}
        self._under_way: dict[K, asyncio.Task[T]] = {}

    async def __call__(self, key: K) -> T:
        task = self._waiting.get(key)
        if task is None:
            task = self._waiting[key] = asyncio.create_task(self._after(key, self._under_way.get(key)))
            task.add_done_callback(_seen)
        return await asyncio.shield(task)  # one who leaves takes nothing from the others

    async def _after(self, key: K, before: "asyncio.Task[T] | None") -> T:
        if before is not None:
            await asyncio.wait({before})
        mine = self._under_way[key] = self._waiting.pop(key)
        try:
            return await self._look(key)
        finally:
            if self._under_way.get(key) is mine:
                del self._under_way[key]


def _seen(task: "asyncio.Task[T]") -> None:
    """If all who asked have left, nobody else takes note of how it ended."""
    if not task.cancelled():
        task.exception()
