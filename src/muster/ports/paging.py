"""Lists that are longer than a page, read to their end.

async for node in every_node(store, states=LIVE):
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

from muster.domain.jobs import Job, JobState
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Kind, Operation, Status
from muster.domain.undelivered import Undelivered
from muster.ports.jobs import JobStore
from muster.ports.messages import MessageStore
from muster.ports.store import Cursor, Page, Store

T = TypeVar("T")
Read = Callable[[Cursor | None], Awaitable[Page[T]]]


async def pages(
    read: Read[T], *, after: Cursor | None = None, full: int | None = None
) -> AsyncIterator[Page[T]]:
    """Give one page after the other, from `after` on. What is added to a list meanwhile may be missed.

    `full`: how many items a full page of a feed has. A feed always says where it goes on, so a page that is
    not full is its present end.
    """
    while True:
        page = await read(after)
        yield page
        after = page.next
        if after is None or (full is not None and len(page.items) < full):
            return


async def items(read: Read[T]) -> AsyncIterator[T]:
    """Give the items of all pages. A page is read when the one before is used up."""
    async for page in pages(read):
        for item in page.items:
            yield item


BATCH = 500
PROVISIONS_AT_ONCE = 100


def provisions(
    store: Store, *, run: str | None, statuses: Sequence[Status] = tuple(Status)
) -> AsyncIterator[Operation]:
    """Yield the provisions of one run, or of all; newest first. Provisions made meanwhile may be missed."""
    return items(
        lambda after: store.operations(
            kind=Kind.PROVISION, statuses=statuses, run=run, after=after, limit=PROVISIONS_AT_ONCE
        )
    )


def node_pages(
    store: Store, *, states: Sequence[NodeState], template: str | None = None
) -> AsyncIterator[Page[Node]]:
    return pages(lambda after: store.nodes(states=states, template=template, after=after, limit=BATCH))


def every_node(
    store: Store, *, states: Sequence[NodeState], template: str | None = None
) -> AsyncIterator[Node]:
    """Yield the nodes in these states, of one template or of all."""
    return items(lambda after: store.nodes(states=states, template=template, after=after, limit=BATCH))


def every_undelivered(messages: MessageStore, webhook: str) -> AsyncIterator[Undelivered]:
    return items(lambda after: messages.undelivered(webhook=webhook, after=after, limit=BATCH))


def every_job(jobs: JobStore, *, states: Sequence[JobState]) -> AsyncIterator[Job]:
    return items(lambda after: jobs.jobs(states=states, after=after, limit=BATCH))
