"""Undelivered messages of webhooks, for the message port: one item each, in one partition."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing, suppress

from muster.domain.errors import Conflict
from muster.domain.undelivered import Backlog, Undelivered, dropped
from muster.ports.store import Cursor, Page
from muster.stores import cursors
from muster.stores.dynamodb import keys
from muster.stores.dynamodb.feed import Feed
from muster.stores.dynamodb.table import Again, Table
from muster.stores.dynamodb.values import Item, moment, record, restored, text
from muster.stores.dynamodb.writes import ABSENT, Write, again, version_conflict


class DynamoMessages:
    """Implements muster.ports.messages.MessageStore; see there for what each verb promises."""

    def __init__(self, table: Table, feed: Feed) -> None:
        self._table = table
        self._feed = feed

    async def undelivered(
        self, *, webhook: str | None, after: Cursor | None = None, limit: int
    ) -> Page[Undelivered]:
        low, high = (None, None) if webhook is None else (f"{webhook}.", f"{webhook}.{keys.LAST}")
        if after is not None:
            (low,) = cursors.decode("undelivered", after, str)
        found = await self._table.query(keys.UNDELIVERED, low=low, high=high, most=limit + 2)
        some = [restored(Undelivered, item) for item in found if after is None or text(item, "SK") != low]
        return cursors.page(some[: limit + 1], limit, "undelivered", place=lambda each: (each.id,))

    async def backlogs(self) -> Sequence[Backlog]:
        return [await self._backlog(name) for name in await self._webhooks()]

    async def _webhooks(self) -> Sequence[str]:
        """Return the webhooks that have messages: from one to the next, past the messages of each."""
        found: list[str] = []
        low: str | None = None
        while some := await self._table.query(keys.UNDELIVERED, low=low, most=1):
            found.append(text(some[0], "SK").partition(".")[0])
            low = f"{found[-1]}.{keys.LAST}"
        return found

    async def _backlog(self, webhook: str) -> Backlog:
        waiting, given_up, oldest, last = await asyncio.gather(
            self._table.count(_listed(webhook, given_up=False), index="listed"),
            self._table.count(_listed(webhook, given_up=True), index="listed"),
            self._first(_listed(webhook, given_up=False), forward=True),
            self._first(_listed(webhook, given_up=True), forward=False),
        )
        shown = oldest or last
        return Backlog(
            webhook=webhook,
            waiting=waiting,
            given_up=given_up,
            oldest_since=None if oldest is None else oldest.since,
            given_up_at=None if last is None else last.given_up_at,
            problem="" if shown is None else shown.problem,
        )

    async def _first(self, partition: str, *, forward: bool) -> Undelivered | None:
        walk = self._table.walk(partition, index="listed", forward=forward, page=1)
        async with aclosing(walk) as items:
            async for item in items:
                return restored(Undelivered, item)
        return None

    async def keep_undelivered(self, message: Undelivered) -> None:
        write, key = Write(), (keys.UNDELIVERED, message.id)
        write.put(key, _item(message), where=ABSENT, refused=again(message.id))
        _tell(write, message)
        with suppress(Again):  # it is kept already
            await self._feed.commit(write)

    async def write_undelivered(self, before: Undelivered, after: Undelivered | None) -> None:
        write, key = Write(), (keys.UNDELIVERED, before.id)
        where, values = "#version = :before", {"before": before.version}
        moved = version_conflict(before.id, before.version)
        if after is None:
            write.delete(key, where=where, values=values, refused=moved)
        else:
            write.put(key, _item(after), where=where, values=values, refused=moved)
            _tell(write, after)
        await self._feed.commit(write)

    async def prune_undelivered(self, *, before: float) -> None:
        for item in await self._table.query(keys.UNDELIVERED):
            message = restored(Undelivered, item)
            if message.since >= before:
                continue
            with suppress(Conflict):  # it was sent again at this moment
                await self.write_undelivered(message, None)


def _listed(webhook: str, *, given_up: bool) -> str:
    return f"{keys.UNDELIVERED}#{webhook}#{'given_up' if given_up else 'waiting'}"


def _item(message: Undelivered) -> Item:
    return {
        "d": record(message),
        "version": message.version,
        "lp": _listed(message.webhook, given_up=message.given_up),
        "ls": moment(message.since if message.given_up_at is None else message.given_up_at, message.id),
    }


def _tell(write: Write, message: Undelivered) -> None:
    if message.given_up_at is not None:
        write.tell(dropped(message), at=message.given_up_at)
