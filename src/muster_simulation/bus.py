"""Wake-ups shared by all replicas, as a database's notifications would be. Sometimes one is lost.

Owns the loss only. A listener lives in the Life that made it; those of the dead are dropped when met.
"""

from collections.abc import Sequence
from random import Random

from muster.ports.wakeups import Listener
from muster.stores.wakeups import LocalListener, LocalWakeups
from muster_simulation.life import Life, current_life
from muster_simulation.trace import FaultCounts


class Bus(LocalWakeups):
    def __init__(self, *, random: Random, counts: FaultCounts, lost: float = 0.0) -> None:
        super().__init__()
        self.lost = lost
        self._random = random
        self._counts = counts
        self._lives: dict[int, Life] = {}

    def listen(self, topics: Sequence[str]) -> Listener:
        listener = super().listen(topics)
        life = current_life()
        if life is not None:
            self._lives[self._count] = life
        return listener

    def forget(self, listener: LocalListener) -> None:
        super().forget(listener)
        self._lives.pop(listener.number, None)

    def notify(self, topic: str) -> None:
        for listener in tuple(self._listeners.get(topic, {}).values()):
            life = self._lives.get(listener.number)
            if life is not None and not life.alive:
                listener.close()
            elif self.lost and self._random.random() < self.lost:
                self._counts.add("wake-up lost")
            else:
                listener.wake()
