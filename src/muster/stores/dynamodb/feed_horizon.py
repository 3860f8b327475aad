"""Find how far a log of events is whole: the number up to which all committed events can be read.

Outside of transactions, DynamoDB shows the items of a committed transaction one by one. A reader may see a
head before its event, and an event before its predecessor. So each event names its predecessor (`after`).
This module follows that chain from where it was last whole to the head. At a gap it reads predecessor and
witness in one transaction. What is missing even there was deleted. Everything else is on its way, so the log
ends below it for now.

Events older than SETTLED count as whole: no transaction is on its way for that long.
"""

import asyncio

from muster.ports.clock import Clock
from muster.stores.dynamodb import keys
from muster.stores.dynamodb.table import Table
from muster.stores.dynamodb.values import Key, whole

SETTLED = 300.0
"""Seconds. The SDK repeats a call under its number for little more than a minute, and DynamoDB applies
what it accepted at once. The rest is for clocks that disagree.
"""


class FeedHorizon:
    def __init__(self, table: Table, *, shards: int, clock: Clock) -> None:
        self._table = table
        self._clock = clock
        self._turns = tuple(asyncio.Lock() for _ in range(shards))
        self._known = [0] * shards

    async def whole(self, log: int, head: int) -> int:
        """Return up to where the log is whole; at most the head that was seen."""
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
        """Return whether an event that was committed before the witness was deleted."""
        found = await self._table.get_together([event, witness])
        return found is not None and witness in found and event not in found
