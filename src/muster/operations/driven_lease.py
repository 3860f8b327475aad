"""Hold one operation's lease on this replica: its right to write, and its pace.

Keeps nothing that must survive: a replica that takes over derives everything from the store.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from muster.domain.errors import LeaseLost
from muster.domain.ids import LaunchId, OperationId
from muster.domain.operation import Fence, Operation
from muster.ports.store import Store

ANSWER_WITHIN = 10.0
"""Seconds after a call in which its answer is written down, at most."""


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
