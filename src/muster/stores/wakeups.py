"""Wake-ups inside one process: hints between the store's writes and whoever waits for them."""

import asyncio
from collections.abc import Sequence

from muster.ports.wakeups import Listener, Wakeups


class LocalWakeups(Wakeups):
    def __init__(self) -> None:
        self._listeners: dict[str, dict[int, _Listener]] = {}

    def notify(self, topic: str) -> None:
        for listener in tuple(self._listeners.get(topic, {}).values()):
            listener.wake()

    def listen(self, topics: Sequence[str]) -> Listener:
        listener = _Listener(self, tuple(topics))
        for topic in listener.topics:
            self._listeners.setdefault(topic, {})[id(listener)] = listener
        return listener

    def forget(self, listener: "_Listener") -> None:
        for topic in listener.topics:
            waiting = self._listeners.get(topic, {})
            waiting.pop(id(listener), None)
            if not waiting:
                self._listeners.pop(topic, None)


class _Listener(Listener):
    def __init__(self, wakeups: LocalWakeups, topics: tuple[str, ...]) -> None:
        self._wakeups = wakeups
        self.topics = topics
        self._woken = asyncio.Event()

    def wake(self) -> None:
        self._woken.set()

    async def wait(self, timeout: float) -> bool:
        try:
            async with asyncio.timeout(timeout):
                await self._woken.wait()
        except TimeoutError:
            return False
        self._woken.clear()
        return True

    def close(self) -> None:
        self._wakeups.forget(self)
