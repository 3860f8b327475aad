"""Undelivered messages of webhooks, for the message port: one item each, in one partition."""

from collections.abc import Sequence

from muster.domain.undelivered import KEPT, LISTED_MOST, Undelivered, told
from muster.stores.dynamodb import keys
from muster.stores.dynamodb.feed import Feed
from muster.stores.dynamodb.table import Again, Table
from muster.stores.dynamodb.values import record, restored
from muster.stores.dynamodb.writes import ABSENT, Write, version_conflict

FORGOTTEN = 20
"""Old messages that go with one write, which has few places."""


class DynamoMessages:
    """Implements muster.ports.messages.MessageStore; see there for what each verb promises."""

    def __init__(self, table: Table, feed: Feed) -> None:
        self._table = table
        self._feed = feed

    async def undelivered(self, *, webhook: str | None, limit: int) -> Sequence[Undelivered]:
        low, high = (None, None) if webhook is None else (f"{webhook}.", f"{webhook}.{keys.LAST}")
        found = await self._table.query(keys.UNDELIVERED, low=low, high=high, most=limit)
        return [restored(Undelivered, item) for item in found]

    async def keep_undelivered(self, message: Undelivered) -> None:
        write = Write()
        known = await self.undelivered(webhook=None, limit=LISTED_MOST)
        old = [each for each in known if each.since < message.since - KEPT and each.id != message.id]
        for each in old[:FORGOTTEN]:
            write.delete((keys.UNDELIVERED, each.id))
        content = {"d": record(message), "version": message.version}
        write.put(
            (keys.UNDELIVERED, message.id), content, where=ABSENT, refused=lambda _item: Again(message.id)
        )
        draft = told(None, message)
        if draft is not None:
            write.tell(draft, at=message.since)
        try:
            await self._feed.commit(write)
        except Again:
            return  # it is kept already

    async def write_undelivered(
        self, before: Undelivered, after: Undelivered | None, *, now: float, actor: str = ""
    ) -> None:
        write, key = Write(), (keys.UNDELIVERED, before.id)
        where, values = "#version = :before", {"before": before.version}
        moved = version_conflict(before.id, before.version)
        if after is None:
            write.delete(key, where=where, values=values, refused=moved)
        else:
            content = {"d": record(after), "version": after.version}
            write.put(key, content, where=where, values=values, refused=moved)
        draft = told(before, after, actor=actor)
        if draft is not None:
            write.tell(draft, at=now)
        await self._feed.commit(write)
