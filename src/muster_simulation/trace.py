"""What a run leaves behind: its trace, and how often each fault struck.

The trace is a hash over every store event and every cloud action, in order, and the last of them. Two runs
with the same hash did the same things in the same order.
"""

import hashlib
from collections import deque

from muster.domain.events import Event

KEPT = 40


class Trace:
    def __init__(self, *, kept: int = KEPT) -> None:
        self._hash = hashlib.sha256()
        self._last: deque[str] = deque(maxlen=kept)
        self.events = 0
        self.actions = 0

    def event(self, event: Event) -> None:
        self.events += 1
        detail = f" ({event.detail})" if event.detail else ""
        what = f"{event.entity} {event.entity_id} v{event.version} {event.name}{detail}"
        self._line(f"{event.at:.3f} {what} {event.changes}")

    def action(self, at: float, verb: str, subject: str, outcome: str) -> None:
        self.actions += 1
        self._line(f"{at:.3f} cloud {verb} {subject}: {outcome}")

    def remark(self, at: float, text: str) -> None:
        """What else a reader of the last lines wants to know: replicas that crash, agents that attach."""
        self._line(f"{at:.3f} {text}")

    def _line(self, line: str) -> None:
        self._hash.update(line.encode())
        self._hash.update(b"\n")
        self._last.append(line)

    @property
    def last(self) -> tuple[str, ...]:
        return tuple(self._last)

    def digest(self) -> str:
        return self._hash.hexdigest()


class FaultCounts:
    """How often each fault struck. Counted where it strikes, shown in the summary."""

    def __init__(self) -> None:
        self.by_kind: dict[str, int] = {}

    def add(self, kind: str, times: int = 1) -> None:
        self.by_kind[kind] = self.by_kind.get(kind, 0) + times
