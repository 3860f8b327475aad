"""The end of service: long answers hear of it and end by themselves, so that a stop waits for none."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from muster.ports.wakeups import Wakeups

T = TypeVar("T")
TOPIC = "closing"


class Closing:
    def __init__(self, wakeups: Wakeups) -> None:
        self._wakeups = wakeups
        self._event = asyncio.Event()

    @property
    def begun(self) -> bool:
        return self._event.is_set()

    def begin(self) -> None:
        self._event.set()
        self._wakeups.notify(TOPIC)

    async def unless(self, work: Coroutine[Any, Any, T]) -> T | None:
        """The work's result, or None if the end came first."""
        task = asyncio.ensure_future(work)
        end = asyncio.ensure_future(self._event.wait())
        try:
            await asyncio.wait({task, end}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            end.cancel()
            task.cancel()
