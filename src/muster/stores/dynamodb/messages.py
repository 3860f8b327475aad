"""Undelivered messages of webhooks, for the message port: one item each, in one partition."""

from collections.abc import Sequence

from muster.domain.errors import Conflict
from muster.domain.undelivered import Undelivered, dropped
from muster.stores.dynamodb import keys
from muster.stores.dynamodb.feed import Feed
from muster.stores.dynamodb.table import Again, Table
from muster.stores.dynamodb.values import record, restored
from muster.stores.dynamodb.writes import ABSENT, Write, version_conflict


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
        content = {"d": record(message), "version": message.version}
        write.put(
            (keys.UNDELIVERED, message.id), content, where=ABSENT, refused=lambda _item: Again(message.id)
        )
        draft = dropped(message)
        if draft is not None:
            write.tell(draft, at=message.since)
        try:
            await self._feed.commit(write)
        except Again:
            return  # it is kept already

    async def write_undelivered(self, before: Undelivered, after: Undelivered | None, *, now: float) -> None:
        write, key = Write(), (keys.UNDELIVERED, before.id)
        where, values = "#version = :before", {"before": before.version}
        moved = version_conflict(before.id, before.version)
        if after is None:
            write.delete(key, where=where, values=values, refused=moved)
        else:
            content = {"d": record(after), "version": after.version}
            write.put(key, content, where=where, values=values, refused=moved)
        draft = dropped(after)
        if draft is not None:
            write.tell(draft, at=now)
        await self._feed.commit(write)

    async def prune_undelivered(self, *, before: float) -> None:
        for item in await self._table.query(keys.UNDELIVERED):
            message = restored(Undelivered, item)
            if message.since >= before:
                continue
            try:
                await self.write_undelivered(message, None, now=before)
            except Conflict:
                continue  # it was sent again at this moment
