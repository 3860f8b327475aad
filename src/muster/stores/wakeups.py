"""Wake-ups inside one process: hints from the store's writes to those who wait for them."""

import asyncio
from collections.abc import Sequence

from muster.ports.wakeups import Listener, Wakeups


class LocalWakeups(Wakeups):
    def __init__(self) -> None:
        self._listeners: dict[str, dict[int, LocalListener]] = {}
        self._count = 0

    def notify(self, topic: str) -> None:
        listeners = self._listeners.get(topic)
        if listeners is not None:  # most topics have none
            for listener in tuple(listeners.values()):
                listener.wake()

    def listen(self, topics: Sequence[str]) -> Listener:
        self._count += 1
        listener = LocalListener(self, self._count, tuple(topics))
        for topic in listener.topics:
            self._listeners.setdefault(topic, {})[listener.number] = listener
        return listener

    def forget(self, listener: "LocalListener") -> None:
        for topic in listener.topics:
            waiting = self._listeners.get(topic, {})
            if waiting.pop(listener.number, None) is not None and not waiting:
                del self._listeners[topic]


class LocalListener(Listener):
    __slots__ = ("_notified", "_waiting", "_wakeups", "number", "topics")

    def __init__(self, wakeups: LocalWakeups, number: int, topics: tuple[str, ...]) -> None:
        self.number = number
        self.topics = topics
        self._wakeups = wakeups
        self._notified = False
        self._waiting: asyncio.Future[None] | None = None

    def wake(self) -> None:
        self._notified = True
        _resolve(self._waiting)

    async def wait(self, timeout: float) -> bool:
        if not self._notified and timeout > 0:
            loop = asyncio.get_running_loop()
            # A bare future and timer: this is waited on more often than anything else.
            self._waiting = loop.create_future()
            timer = loop.call_later(timeout, _resolve, self._waiting)
            try:
                await self._waiting
            finally:
                timer.cancel()
                self._waiting = None
        notified, self._notified = self._notified, False
        return notified

    def close(self) -> None:
        self._wakeups.forget(self)


def _resolve(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)
