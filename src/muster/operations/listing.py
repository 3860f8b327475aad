"""Provisions, all of them, however many there are. Reads page by page; holds nothing."""

from collections.abc import AsyncIterator, Sequence

from muster.domain.operation import Kind, Operation, Status
from muster.ports.store import Cursor, Store

BATCH = 100


async def provisions(
    store: Store, *, run: str | None, statuses: Sequence[Status] = tuple(Status)
) -> AsyncIterator[Operation]:
    """Of one run, or of all; the newest first. Those that are made meanwhile may be missed."""
    cursor: Cursor | None = None
    while True:
        page = await store.operations(
            kind=Kind.PROVISION, statuses=statuses, run=run, after=cursor, limit=BATCH
        )
        for operation in page.items:
            yield operation
        cursor = page.next
        if cursor is None:
            return
