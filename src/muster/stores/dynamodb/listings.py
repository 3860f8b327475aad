"""Lists of records, newest first, page by page, from partitions of an index.

An index may lag behind its items. So a record is judged by what its item says, not by where it was found.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from muster.ports.store import Cursor, Page
from muster.stores import cursors
from muster.stores.cursors import R
from muster.stores.dynamodb.table import Table
from muster.stores.dynamodb.values import Item, moment


async def newest(
    table: Table,
    partitions: Sequence[str],
    read: Callable[[Item], R | None],
    *,
    kind: str,
    index: str = "listed",
    after: Cursor | None,
    limit: int,
) -> Page[R]:
    """Return a page of the list `kind`. `read` makes a record of an item; None: it isn't of this list."""
    before = None if after is None else moment(*cursors.decode(kind, after, float, str))
    walks = [table.walk(each, index=index, high=before, forward=False, page=limit + 2) for each in partitions]
    parts = await asyncio.gather(*(_older(walk, read, before, limit + 1) for walk in walks))
    # While an index moves, it may name a record under its old state and its new one.
    by_id = {record.id: record for part in parts for record in part}
    return cursors.page(sorted(by_id.values(), key=cursors.age, reverse=True), limit, kind)


async def _older(
    walk: AsyncGenerator[Item, None], read: Callable[[Item], R | None], before: str | None, most: int
) -> list[R]:
    found: list[R] = []
    async with aclosing(walk) as items:
        async for item in items:
            record = read(item)
            if record is not None and (before is None or moment(*cursors.age(record)) < before):
                found.append(record)
            if len(found) == most:
                break
    return found
