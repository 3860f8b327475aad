"""The table: consistent reads unless an index or a cheaper one is asked, and single conditional writes.

This module owns paging: a query continues over pages of 1 MB, a batch over 100 keys and over what DynamoDB
left undone. In expressions, `#name` is an attribute and `:name` one of the given values.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from typing import Any, ParamSpec, TypeVar

from muster.domain.backoff import backoff, spread
from muster.domain.errors import NotFound, StoreUnavailable
from muster.ports.clock import Clock
from muster.ports.ids import Ids
from muster.ports.store import Cursor, Page
from muster.stores import cursors
from muster.stores.cursors import R
from muster.stores.dynamodb.aws_client import AwsClient, Refused
from muster.stores.dynamodb.values import Item, Key, Value, attribute, decoded, moment, named, restored

T = TypeVar("T")
P = ParamSpec("P")
BATCH = 100
AT_ONCE = 25
"""Calls in flight of one verb that makes many."""
TRIES = 12
SETTLE_SECONDS = 2.0
"""After this, what was committed can be read: DynamoDB applies a transaction within milliseconds."""
LOWEST, HIGHEST = "\x00", "\U0010ffff"
_INDEX_KEYS = {"listed": ("lp", "ls"), "scoped": ("sp", "ss"), "timed": ("tp", "ts"), "told": ("PK", "es")}
_NAMES = re.compile(r"#(\w+)")


class Again(Exception):
    """What was read before a write is no longer so: read and decide once more."""


def expressed(given: Mapping[str, str], values: Mapping[str, Value]) -> dict[str, Any]:
    """Return expressions with the names and values that they use."""
    body: dict[str, Any] = dict(given)
    names = {f"#{name}": name for expression in given.values() for name in _NAMES.findall(expression)}
    if names:
        body["ExpressionAttributeNames"] = names
    if values:
        body["ExpressionAttributeValues"] = {f":{name}": attribute(value) for name, value in values.items()}
    return body


class Table:
    def __init__(self, aws: AwsClient, *, clock: Clock, ids: Ids, settle: float = SETTLE_SECONDS) -> None:
        self.aws = aws
        self.name = aws.location.table
        self._clock = clock
        self._ids = ids
        self._settle = settle

    async def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        """Return an item. One that isn't read consistently costs half, and may be a second old."""
        answer = await self.aws.dynamodb(
            "get_item", TableName=self.name, Key=named(key), ConsistentRead=consistent
        )
        return decoded(answer["Item"]) if "Item" in answer else None

    async def record(self, cls: type[T], key: Key) -> T | None:
        """Return the record of a key. None: there is no such item."""
        item = await self.get(key)
        return None if item is None else restored(cls, item)

    async def found(self, key: Key, what: str, name: str) -> Item:
        """Return the item of a key. Raises NotFound with what it is to a person."""
        item = await self.get(key)
        if item is None:
            raise NotFound(what, name)
        return item

    async def get_many(self, keys: Sequence[Key]) -> dict[Key, Item]:
        """Return those that exist."""
        wanted = tuple(dict.fromkeys(keys))
        parts = [wanted[start : start + BATCH] for start in range(0, len(wanted), BATCH)]
        found: dict[Key, Item] = {}
        for part in await asyncio.gather(*(self._batch(part) for part in parts)):
            found.update(part)
        return found

    async def _batch(self, keys: Sequence[Key]) -> dict[Key, Item]:
        found: dict[Key, Item] = {}
        asked: list[Any] = [named(key) for key in keys]
        for attempt in range(TRIES):
            request = {self.name: {"Keys": asked, "ConsistentRead": True}}
            answer = await self.aws.dynamodb("batch_get_item", RequestItems=request)
            for each in answer["Responses"].get(self.name, ()):
                found[each["PK"]["S"], each["SK"]["S"]] = decoded(each)
            asked = answer.get("UnprocessedKeys", {}).get(self.name, {}).get("Keys", [])
            if not asked:
                return found
            await self.back_off(attempt)
        raise StoreUnavailable(f"cannot read {len(asked)} items of {self.name}: DynamoDB is too busy")

    async def get_together(self, keys: Sequence[Key]) -> dict[Key, Item] | None:
        """Read up to 100 items at one moment: of any transaction, all that it wrote or nothing.

        Returns None while one of them is being written.
        """
        asked = [{"Get": {"TableName": self.name, "Key": named(key)}} for key in keys]
        try:
            answer = await self.aws.dynamodb("transact_get_items", TransactItems=asked)
        except Refused:
            return None
        found = zip(keys, answer["Responses"], strict=True)
        return {key: decoded(each["Item"]) for key, each in found if each.get("Item")}

    async def query(
        self,
        partition: str,
        *,
        index: str | None = None,
        low: str | None = None,
        high: str | None = None,
        forward: bool = True,
        most: int | None = None,
        where: str | None = None,
        values: Mapping[str, Value] | None = None,
        only: str | None = None,
    ) -> list[Item]:
        """Return the first `most` items of a partition from `low` to `high`, both included. `only`: these
        attributes."""
        asked = self._asked(
            partition, index, low=low, high=high, forward=forward, where=where, values=values, only=only
        )
        if most is not None and where is None:
            asked["Limit"] = most
        found: list[Item] = []
        while True:
            answer = await self.aws.dynamodb("query", **asked)
            found.extend(decoded(each) for each in answer["Items"])
            if "LastEvaluatedKey" not in answer or (most is not None and len(found) >= most):
                return found[:most]
            asked["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def _asked(
        self,
        partition: str,
        index: str | None,
        *,
        low: str | None = None,
        high: str | None = None,
        forward: bool = True,
        where: str | None = None,
        values: Mapping[str, Value] | None = None,
        only: str | None = None,
    ) -> dict[str, Any]:
        one, other = _INDEX_KEYS[index] if index else ("PK", "SK")
        bounds = {"low": low or LOWEST, "high": high or HIGHEST} if low or high else {}
        between = f" AND #{other} BETWEEN :low AND :high" if bounds else ""
        given = {"KeyConditionExpression": f"#{one} = :partition{between}"}
        if where is not None:
            given["FilterExpression"] = where
        if only is not None:
            given["ProjectionExpression"] = only
        asked: dict[str, Any] = {
            "TableName": self.name,
            "ScanIndexForward": forward,
            **expressed(given, {"partition": partition, **bounds, **(values or {})}),
        }
        if index is not None:
            asked["IndexName"] = index
        if index in (None, "told"):
            asked["ConsistentRead"] = True  # a local index is as consistent as the table
        return asked

    async def walk(
        self,
        partition: str,
        *,
        index: str,
        low: str | None = None,
        high: str | None = None,
        forward: bool = True,
        page: int = BATCH,
    ) -> AsyncGenerator[Item, None]:
        """Return what an index names, as the items are now, without those that are gone."""
        asked = self._asked(partition, index, low=low, high=high, forward=forward)
        asked["Limit"] = min(page, BATCH)
        while True:
            answer = await self.aws.dynamodb("query", **asked)
            names = [(each["PK"]["S"], each["SK"]["S"]) for each in answer["Items"]]
            found = await self.get_many(names)
            for name in names:
                if name in found:
                    yield found[name]
            if "LastEvaluatedKey" not in answer:
                return
            asked["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    async def scan(self, where: str, values: Mapping[str, Value]) -> AsyncGenerator[Item, None]:
        """Read the whole table consistently. Expensive: for rare questions that must be right."""
        asked: dict[str, Any] = {
            "TableName": self.name,
            "ConsistentRead": True,
            **expressed({"FilterExpression": where}, values),
        }
        while True:
            answer = await self.aws.dynamodb("scan", **asked)
            for each in answer["Items"]:
                yield decoded(each)
            if "LastEvaluatedKey" not in answer:
                return
            asked["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    async def holds_anything(self) -> bool:
        answer = await self.aws.dynamodb("scan", TableName=self.name, ConsistentRead=True, Limit=1)
        return bool(answer["Items"])

    async def count(
        self, partition: str, *, index: str | None = None, high: str | None = None, most: int | None = None
    ) -> int:
        """Count items, at most `most`; with `high`, those below it by the table's own key."""
        asked = self._asked(partition, index) | {"Select": "COUNT"}
        if most is not None:
            asked["Limit"] = most
        if high is not None:
            values: dict[str, Value] = {"partition": partition, "high": high}
            given = {"KeyConditionExpression": "#PK = :partition AND #SK < :high"}
            asked |= expressed(given, values)
        counted: int = 0
        while True:
            answer = await self.aws.dynamodb("query", **asked)
            counted += int(answer["Count"])
            if "LastEvaluatedKey" not in answer or (most is not None and counted >= most):
                return counted
            asked["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    async def update(self, key: Key, change: str, *, where: str, values: Mapping[str, Value]) -> bool:
        """Make one conditional write. False: the condition did not hold."""
        asked = expressed({"UpdateExpression": change, "ConditionExpression": where}, values)
        for attempt in range(TRIES):
            try:
                await self.aws.dynamodb("update_item", TableName=self.name, Key=named(key), **asked)
            except Refused as refused:
                if refused.reasons[0][0] == "ConditionalCheckFailed":
                    return False
                await self.back_off(attempt)  # a transaction had the item at that moment
            else:
                return True
        raise StoreUnavailable(f"cannot write {key[0]}: others write it all the time; it is tried again")

    async def delete(self, keys: Sequence[Key]) -> None:
        """Delete without a condition, 25 at a time; missing items count as deleted."""
        for start in range(0, len(keys), AT_ONCE):
            asked: Any = [{"DeleteRequest": {"Key": named(key)}} for key in keys[start : start + AT_ONCE]]
            for attempt in range(TRIES):
                answer = await self.aws.dynamodb("batch_write_item", RequestItems={self.name: asked})
                asked = answer.get("UnprocessedItems", {}).get(self.name, [])
                if not asked:
                    break
                await self.back_off(attempt)
            else:
                raise StoreUnavailable(f"cannot forget items of {self.name}: DynamoDB is too busy")

    async def settled(self) -> None:
        """Wait until all items of everything committed by now can be read.

        For callers that need all writes of others and can name neither items nor a version.
        """
        await self._clock.sleep(self._settle)

    async def back_off(self, attempt: int) -> None:
        await self._clock.sleep(spread(backoff(attempt, first=0.02, most=2.0), self._ids.jitter()))

    def repeating(self, work: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
        """Return the verb, repeated until what it read still holds when it writes."""

        async def verb(*args: P.args, **kwargs: P.kwargs) -> T:
            return await self.repeated(lambda: work(*args, **kwargs))

        return verb

    async def repeated(self, work: Callable[[], Awaitable[T]]) -> T:
        """Repeat until what was read still holds at the write."""
        for attempt in range(TRIES):
            try:
                return await work()
            except Again:
                await self.back_off(attempt - 4)
        raise StoreUnavailable(
            f"cannot write to {self.name}: others were faster each time; it is tried again"
        )


async def gather_bounded(work: Sequence[Callable[[], Awaitable[T]]], *, at_once: int = AT_ONCE) -> list[T]:
    """Make many calls, so many at a time; return their answers in order."""
    turn = asyncio.Semaphore(at_once)

    async def one(each: Callable[[], Awaitable[T]]) -> T:
        async with turn:
            return await each()

    return list(await asyncio.gather(*(one(each) for each in work)))


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
    """Return a page of the list `kind`, newest first. `read` makes a record of an item, or None.

    An index may lag behind its items. So a record is judged by what its item says, not by where it was found.
    """
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
