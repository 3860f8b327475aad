"""Publish an operation's progress: only changes, and not too often.

A publish is best effort for the work it describes, but a guarded write: a Conflict is never swallowed.
"""

from muster.domain import operation as operations
from muster.domain.operation import Operation, Status
from muster.domain.progress import Progress
from muster.domain.settings import Settings
from muster.operations.driven_lease import DrivenLease
from muster.ports.store import Store

NEVER = float("inf")
PERCENT_STEP = 1.0
EXPECTED_STEP = 2.0
"""Smaller moves of the bar or of the expected end aren't worth a write."""


class ProgressPublisher:
    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._every = settings.publish_every

    async def publish(
        self,
        operation: Operation,
        progress: Progress,
        driven: DrivenLease,
        *,
        now: float,
        keep_place: bool = False,
        at_once: bool = False,
    ) -> float:
        """Publish if there is news and the last publish isn't too recent. Returns when to try again."""
        leaving_queue = operation.queued_since is not None and not keep_place
        running = operation.status is Status.RUNNING
        if running and not leaving_queue and not _news(operation, progress, now):
            return NEVER
        due = driven.published_at + self._every
        if now < due and not leaving_queue and not at_once:
            return due
        driven.published_at = now
        change = operations.progressed(operation, progress, now=now, keep_place=keep_place)
        await self._store.write_operation(change, fence=driven.fence)
        return NEVER


def _news(operation: Operation, wanted: Progress, now: float) -> bool:
    """Return whether a publish would show anything new.

    A step back isn't shown (a replacement is created while others boot): publishing it would wake the driver
    by its own write. A move of the bar isn't news either: the view moves the bar.
    """
    shown = operation.progress
    if shown is None:
        return True
    new = operations.next_shown(operation, wanted, now=now)
    if (new.step, new.message, new.parts) != (shown.step, shown.message, shown.parts):
        return True
    if new.motion is None and shown.motion is None and new.percent - shown.percent >= PERCENT_STEP:
        return True
    return new.motion != shown.motion or _moved(new.expected_at, shown.expected_at)


def _moved(new: float | None, shown: float | None) -> bool:
    """Return whether the expected end moved enough to show, appeared or disappeared."""
    if new is None or shown is None:
        return new is not shown
    return abs(new - shown) > EXPECTED_STEP
