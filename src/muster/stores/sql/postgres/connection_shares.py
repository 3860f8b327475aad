"""How many connections a crew of one replica holds, of those that the database has for all of them.

A replica that gets none can't tell anybody: it would have to connect for that. So each finds out for itself,
every few seconds, whether there is room for one more, by asking for one. While there is, it takes up to what
it was told to. When there is none, it gives back a part of what it holds, for whoever has less: who holds
many gives more than who holds few, so that all come to about the same, and nobody is left with nothing. See
docs/adr/0029.
"""

import random
import threading
import time
from collections.abc import Callable

LOOK_EVERY = 10.0
"""Longer than a replica without any waits before it asks again: it comes first when there is room."""
KEPT = 0.75
GROWTH = 4
"""One more for so many that it may hold, and at least one."""


class Share:
    def __init__(self, most: int, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._asking = 0
        self.allowed = most
        self.held = 0
        """Connections that do work at present."""
        self._look_at = self._later()

    def ask(self) -> bool:
        """Whether one more may be asked for. If so, `asked` is to be told when that is over."""
        with self._lock:
            if self.held + self._asking >= self.allowed:
                return False
            self._asking += 1
            return True

    def asked(self) -> None:
        with self._lock:
            self._asking -= 1

    def entered(self) -> None:
        with self._lock:
            self.held += 1

    def left(self) -> None:
        with self._lock:
            self.held -= 1

    def refused(self) -> None:
        """One more was asked for in vain. Who holds none has nothing to give."""
        with self._lock:
            if self.held:
                others = max(0, self._asking - 1)
                self.allowed = max(1, min(self.allowed, int((self.held + others) * KEPT)))
                self._look_at = self._later()

    def give_back(self) -> bool:
        """Whether the caller is to close its connection. If so, it counts as left."""
        with self._lock:
            if self.held <= self.allowed:
                return False
            self.held -= 1
            return True

    def look(self) -> bool:
        """Whether the caller is to see if one more would be given. Otherwise whoever has none will see."""
        with self._lock:
            if self._monotonic() < self._look_at:
                return False
            self._look_at = self._later()
            if self.allowed < self._most:
                self.allowed = min(self._most, self.allowed + max(1, self.allowed // GROWTH))
                return False
            return self.held == self._most > 1

    def _later(self) -> float:
        # Spread, or replicas that gave back together would take it again together.
        return self._monotonic() + LOOK_EVERY * (0.5 + random.random())  # noqa: S311 — guards nothing
