"""List all provisions, page by page."""

from collections.abc import AsyncIterator, Sequence

from muster.domain.operation import Kind, Operation, Status
from muster.ports.paging import items
from muster.ports.store import Store

BATCH = 100


def provisions(
    store: Store, *, run: str | None, statuses: Sequence[Status] = tuple(Status)
) -> AsyncIterator[Operation]:
    """Of one run, or of all; the newest first. Those that are made meanwhile may be missed."""
    return items(
        lambda after: store.operations(
            kind=Kind.PROVISION, statuses=statuses, run=run, after=after, limit=BATCH
        )
    )
