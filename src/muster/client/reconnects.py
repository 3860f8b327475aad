"""Decide how long a lost connection is tried again, and tell the client's owner.

Several streams of one client break and come back together: that is one change, told once.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

PATIENCE = 300.0
"""Seconds for which a stream that had begun is looked for: as long as a restart may take."""
TRIES = 60
STEADY = 30.0
"""A connection that held so long was a good one: its break is a new one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionChange:
    """The server is lost, or back."""

    url: str
    patience: float
    back: bool = False


ChangeListener = Callable[[ConnectionChange], None]


def ignore_change(_break: ConnectionChange) -> None:
    """Ignore the change; the default listener."""


class Reconnects:
    """All lost connections of one client."""

    def __init__(
        self, url: str, on_change: ChangeListener, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._url = url
        self._on_change = on_change
        self._clock = clock
        self._lock = threading.Lock()
        self._lost = False

    def attempt(self, *, tries: int) -> "StreamAttempt":
        return StreamAttempt(self, tries=tries, clock=self._clock)

    def lost(self) -> None:
        self._tell(lost=True)

    def mended(self) -> None:
        if self._lost:
            self._tell(lost=False)

    def _tell(self, *, lost: bool) -> None:
        with self._lock:
            if lost is self._lost:
                return
            self._lost = lost
            self._on_change(ConnectionChange(url=self._url, patience=PATIENCE, back=not lost))


class StreamAttempt:
    """One stream's tries. Before its first connection, it is given up as soon as any other call."""

    def __init__(self, reconnects: Reconnects, *, tries: int, clock: Callable[[], float]) -> None:
        self._reconnects = reconnects
        self._tries = tries
        self._clock = clock
        self._since: float | None = None
        self._connected_at: float | None = None
        self._begun = False
        self.number = 0

    def connected(self) -> None:
        self._begun, self._since, self._connected_at = True, None, self._clock()
        self._reconnects.mended()

    def came(self) -> None:
        """Reset the time limit: an item came through."""
        self.number, self._since = 0, None

    def failed(self) -> bool:
        """Count a failed try; return whether another one is worthwhile."""
        self.number += 1
        if not self._begun:
            return self.number < self._tries
        now = self._clock()
        if self._connected_at is not None and now - self._connected_at >= STEADY:
            self.number = 1
        self._connected_at = None
        self._since = now if self._since is None else self._since
        if self.number >= TRIES or now - self._since >= PATIENCE:
            return False
        self._reconnects.lost()
        return True
