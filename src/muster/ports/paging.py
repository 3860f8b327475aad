"""Lists that are longer than a page, read to their end.

async for node in items(lambda after: store.nodes(states=LIVE, template=None, after=after, limit=100)):
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

from muster.domain.operation import Kind, Operation, Status
from muster.ports.store import Cursor, Page, Store

T = TypeVar("T")
Read = Callable[[Cursor | None], Awaitable[Page[T]]]


async def pages(read: Read[T]) -> AsyncIterator[tuple[T, ...]]:
    """Give the items of one page after the other. What is added meanwhile may be missed."""
    after: Cursor | None = None
    while True:
        page = await read(after)
        yield page.items
        after = page.next
        if after is None:
            return


async def items(read: Read[T]) -> AsyncIterator[T]:
    """Give the items of all pages. A page is read when the one before is used up."""
    async for page in pages(read):
        for item in page:
            yield item


BATCH = 100


def provisions(
    store: Store, *, run: str | None, statuses: Sequence[Status] = tuple(Status)
) -> AsyncIterator[Operation]:
    """Yield the provisions of one run, or of all; newest first. Provisions made meanwhile may be missed."""
    return items(
        lambda after: store.operations(
            kind=Kind.PROVISION, statuses=statuses, run=run, after=after, limit=BATCH
        )
    )
