"""Wake-ups shared by all replicas, as a database's notifications would be. Sometimes one is lost.

Owns delivery only. A listener lives in the Life that made it; those of the dead are dropped when met.
"""

import asyncio
from collections.abc import Sequence
from random import Random

from muster.simulation.life import Life, current_life
from muster.simulation.tally import Tally


class Bus:
    def __init__(self, *, random: Random, tally: Tally, lost: float = 0.0) -> None:
        self.lost = lost
        self._random = random
        self._tally = tally
        self._listeners: dict[str, dict[int, BusListener]] = {}
        self._count = 0

    def notify(self, topic: str) -> None:
        listeners = self._listeners.get(topic)
        if not listeners:
            return
        for number, listener in tuple(listeners.items()):
            if listener.life is not None and not listener.life.alive:
                del listeners[number]
            elif self.lost and self._random.random() < self.lost:
                self._tally.add("wake-up lost")
            else:
                listener.wake()
        if not listeners:
            del self._listeners[topic]

    def listen(self, topics: Sequence[str]) -> "BusListener":
        self._count += 1
        listener = BusListener(self, self._count, tuple(topics), current_life())
        for topic in listener.topics:
            self._listeners.setdefault(topic, {})[listener.number] = listener
        return listener

    def forget(self, listener: "BusListener") -> None:
        for topic in listener.topics:
            listeners = self._listeners.get(topic)
            if listeners and listeners.pop(listener.number, None) and not listeners:
                del self._listeners[topic]


class BusListener:
    def __init__(self, bus: Bus, number: int, topics: tuple[str, ...], life: Life | None) -> None:
        self.number = number
        self.topics = topics
        self.life = life
        self._bus = bus
        self._notified = False
        self._waiting: asyncio.Future[None] | None = None

    def wake(self) -> None:
        self._notified = True
        _resolve(self._waiting)

    async def wait(self, timeout: float) -> bool:
        if not self._notified and timeout > 0:
            loop = asyncio.get_running_loop()
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
        self._bus.forget(self)


def _resolve(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)
