"""The overview port over the table: counts along an index, lists from the end of one, pool samples."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

from muster.domain.ids import NodeId
from muster.domain.lifecycle import PRESENT, NodeState
from muster.domain.node import Node
from muster.domain.overview import Handover
from muster.domain.pool_history import PoolSample
from muster.ports.overview import Tick
from muster.stores.dynamodb import failures, keys, templates
from muster.stores.dynamodb.feed import Feed
from muster.stores.dynamodb.nodes import Nodes
from muster.stores.dynamodb.operations import Operations
from muster.stores.dynamodb.table import Table
from muster.stores.dynamodb.values import key_of, moment, number, record, restored, text
from muster.stores.dynamodb.vitals import Liveness
from muster.stores.dynamodb.writes import ABSENT

FORGOTTEN_MOST = 100
"""Samples that one write forgets: it keeps one, so the rest goes in a few minutes."""


class DynamoOverview:
    """Implements muster.ports.overview.OverviewStore; see there for what each verb promises."""

    def __init__(
        self, table: Table, feed: Feed, nodes: Nodes, operations: Operations, liveness: Liveness
    ) -> None:
        self._table = table
        self._nodes = nodes
        self.health = liveness.counted
        self.unfinished = operations.oldest
        self.failures = partial(failures.since, table)
        self.changes = feed.changes
        self.acts = feed.acts

    async def census(self) -> Mapping[str, Mapping[NodeState, int]]:
        names = [template.name for template in await templates.current(self._table)]
        return dict(zip(names, await asyncio.gather(*map(self._counted, names)), strict=True))

    async def _counted(self, template: str) -> Mapping[NodeState, int]:
        counts = await asyncio.gather(
            *(self._nodes.count(state=state, template=template) for state in PRESENT)
        )
        return dict(zip(PRESENT, counts, strict=True))

    async def terminating(self, *, limit: int) -> Sequence[Node]:
        found = await self._table.query(keys.ENDING, index="timed", most=limit)
        nodes = await self._nodes.some([NodeId(text(item, "PK").partition("#")[2]) for item in found])
        return [node for node in nodes if node.state is NodeState.TERMINATING]

    async def handovers(self, *, since: float, limit: int) -> Sequence[Handover]:
        low = moment(since)
        found = await self._table.query(keys.HANDED, index="timed", low=low, forward=False, most=limit)
        names = [key_of(item) for item in found]
        items = await self._table.get_many(names)
        return [restored(Handover, items[name]) for name in names if name in items]

    async def pool_samples(self, *, since: float, limit: int) -> Sequence[PoolSample]:
        found = await self._table.query(keys.POOL_SAMPLES, low=moment(since), most=limit)
        return [restored(PoolSample, item) for item in found]

    async def keep_sample(self, sample: PoolSample, *, before: float) -> None:
        await self._table.update(
            (keys.POOL_SAMPLES, moment(sample.at)),
            "SET #d = :d, #at = :at",
            where=f"{ABSENT} OR #at = :at",
            values={"d": record(sample), "at": sample.at},
        )
        old = await self._table.query(keys.POOL_SAMPLES, high=moment(before), most=FORGOTTEN_MOST)
        gone = [text(item, "SK") for item in old if text(item, "SK") != moment(before)]
        await self._table.delete([(keys.POOL_SAMPLES, place) for place in gone])

    async def ticks(self) -> Sequence[Tick]:
        return [
            Tick(name=text(item, "SK"), at=number(item, "ticked_at"), problem=str(item.get("problem") or ""))
            for item in await self._table.query(keys.DUTIES, most=1000)
        ]
