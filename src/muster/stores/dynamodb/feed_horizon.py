"""How far a log of events is whole: the number up to which all that was committed can be read.

DynamoDB shows the items of a committed transaction one by one to whoever doesn't read them in a transaction:
a head may be seen before its event, and an event before the one that was committed before it. So each event
names its predecessor (`after`), and this owns following that chain, from where it was last whole to the head.
At a break it asks for predecessor and witness in one transaction: what is missing even there was forgotten,
and everything else is on its way, so the log ends below it for now.

What is older than SETTLED is taken for whole: no transaction is on its way for that long.
"""

import asyncio

from muster.ports.clock import Clock
from muster.stores.dynamodb import keys
from muster.stores.dynamodb.table import Table
from muster.stores.dynamodb.values import Key, whole

SETTLED = 300.0
"""Seconds. The SDK repeats a call, under the number that it has, for little more than a minute, and DynamoDB
applies what it accepted at once; the rest is for clocks that disagree."""


class Chain:
    def __init__(self, table: Table, *, shards: int, clock: Clock) -> None:
        self._table = table
        self._clock = clock
        self._turns = tuple(asyncio.Lock() for _ in range(shards))
        self._known = [0] * shards

    async def whole(self, log: int, head: int) -> int:
        """At most the head, which was seen."""
        async with self._turns[log]:
            settled = int((self._clock.now() - SETTLED) * 1e6)
            known = max(self._known[log], min(settled, head))
            if known < head:
                known = await self._followed(log, known, head)
            self._known[log] = known
            return min(known, head)

    async def _followed(self, log: int, place: int, head: int) -> int:
        low, high = keys.event(log, place + 1), keys.event(log, head)
        found = await self._table.query(low[0], low=low[1], high=high[1], only="#SK, #after")
        for item in found:
            witness = (low[0], str(item["SK"]))
            before = whole(item, "after")
            if before > place and not await self._forgotten(keys.event(log, before), witness):
                return place
            place = int(witness[1])
        if place < head and await self._forgotten(keys.event(log, head), keys.head(log)):
            return head
        return place

    async def _forgotten(self, event: Key, witness: Key) -> bool:
        """Whether an event that was committed before the witness is there no more."""
        found = await self._table.get_together([event, witness])
        return found is not None and witness in found and event not in found
