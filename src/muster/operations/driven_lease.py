"""Hold one operation's lease on this replica: its right to write, and its pace.

Keeps nothing that must survive: a replica that takes over derives everything from the store.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from muster.domain import operation as operations
from muster.domain.errors import LeaseLost
from muster.domain.ids import LaunchId, OperationId
from muster.domain.operation import Fence, Operation, Status
from muster.domain.progress import Progress
from muster.domain.settings import Settings
from muster.ports.store import Store

ANSWER_WITHIN = 10.0
"""Seconds after a call in which its answer is written down, at most."""
NEVER = float("inf")
PERCENT_STEP = 1.0
EXPECTED_STEP = 2.0
"""Smaller moves of the bar or of the expected end aren't worth a write."""


@dataclass(slots=True, kw_only=True)
class DrivenLease:
    owner: str
    fence: Fence
    lease_until: float
    """Moved by the driver's renewals, and by `prolong` before a call."""
    published_at: float
    queued: bool = False
    """It waits in line and does nothing: it takes no place from those who work."""
    retry_at: float = 0.0
    """No provider call for this operation before then."""
    errors: int = 0
    """Unforeseen errors in a row, as far as this replica knows."""
    failures: int = 0
    """Looks at the provider that failed in a row."""
    unknown_since: float | None = None
    """When the provider first said that it doesn't know a new identity yet."""
    spent: LaunchId | None = None
    """The provider said that this launch's token was used: look for its machines, don't call again."""

    @property
    def operation_id(self) -> OperationId:
        return self.fence.operation_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """When to look again without a wake-up."""

    at: float
    also: str | None = None
    """Another topic that may wake it, beside its own."""


async def prolong(store: Store, driven: DrivenLease, *, until: float) -> None:
    """Make the lease last at least until then: a call must not outlive the right to write down its answer.

    Raises LeaseLost.
    """
    if driven.lease_until >= until:
        return
    if not await store.renew(driven.owner, [driven.fence], until=until):
        raise LeaseLost(f"operation {driven.operation_id} was taken over")
    driven.lease_until = until


@asynccontextmanager
async def prolonged(store: Store, driven: DrivenLease, *, until: float) -> AsyncIterator[None]:
    """Hold the lease until then at least, for one call. Afterwards the next renewal shortens it again."""
    before = driven.lease_until
    await prolong(store, driven, until=until)
    try:
        yield
    finally:
        driven.lease_until = before


def still_driven(operation: Operation, driven: DrivenLease) -> bool:
    """Return whether this replica has anything left to do. Raises LeaseLost if another replica
    drives it now."""
    if operation.epoch != driven.fence.epoch:
        raise LeaseLost(f"operation {operation.id} was taken over")
    return not operation.ended


class OperationHandler(Protocol):
    """One kind of operation."""

    async def advance(self, driven: DrivenLease) -> Next | None:
        """Read what the operation holds, do the one next thing, and return when to look again.

        "At once" if the act gives more to do, because a replica's own writes do not wake it. None: the
        operation has ended. Raises LeaseLost (stop driving), Conflict (look again at once), StoreUnavailable
        (look again later).
        """
        ...


class ProgressPublisher:
    """Publish an operation's progress: only changes, and not too often.

    A publish is best effort for the work it describes, but a guarded write: a Conflict is never swallowed.
    """

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
