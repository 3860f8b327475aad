"""What waits for a connection: two lanes, of which one goes first.

Owns the order. Leases and heartbeats are few, and late ones cost a takeover or a node that seems dead; so
they pass whatever else waits, however much that is. Within a lane it is first come, first served.
"""

import threading
from collections import deque
from collections.abc import Iterable
from typing import Generic, TypeVar

J = TypeVar("J")


class Lanes(Generic[J]):
    def __init__(self) -> None:
        self._urgent: deque[J] = deque()
        self._usual: deque[J] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, urgent: Iterable[J], usual: Iterable[J]) -> None:
        with self._changed:
            before = len(self._urgent) + len(self._usual)
            self._urgent.extend(urgent)
            self._usual.extend(usual)
            self._changed.notify(len(self._urgent) + len(self._usual) - before)

    def take(self, most: int, within: float) -> list[J] | None:
        """Waits for work; up to so many. None: there was none in that time; empty: closed, and all was
        taken."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._urgent or self._usual or self._closed, within):
                return None
            taken: list[J] = []
            for lane in (self._urgent, self._usual):
                while lane and len(taken) < most:
                    taken.append(lane.popleft())
            return taken

    def first(self) -> J | None:
        """The one that has waited longest in the usual lane."""
        with self._changed:
            return self._usual[0] if self._usual else None

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
