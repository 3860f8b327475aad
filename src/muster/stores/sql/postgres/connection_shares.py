"""Share the database's connections among replicas without any talk between them.

A replica without a connection can't tell the others. So each replica tries every few seconds whether one more
connection is given. While that works, it grows to its own limit. When it fails, it gives back a part of what
it holds. A replica with many gives back more than one with few, so all come to about the same. See
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
        """Return whether one more may be asked for. If so, call `asked` when that is over."""
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
        """Note that one more was asked for in vain. A replica without connections has nothing to give."""
        with self._lock:
            if self.held:
                others = max(0, self._asking - 1)
                self.allowed = max(1, min(self.allowed, int((self.held + others) * KEPT)))
                self._look_at = self._later()

    def give_back(self) -> bool:
        """Return whether the caller should close its connection. If so, it no longer counts."""
        with self._lock:
            if self.held <= self.allowed:
                return False
            self.held -= 1
            return True

    def look(self) -> bool:
        """Return whether the caller should try for one more connection. Otherwise one without a connection
        will."""
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
