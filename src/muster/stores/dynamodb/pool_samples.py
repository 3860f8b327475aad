"""Samples of the pools: one item per minute, in one partition."""

from collections.abc import Sequence

from muster.domain.pool_history import PoolSample
from muster.stores.dynamodb import keys
from muster.stores.dynamodb.table import Table
from muster.stores.dynamodb.values import moment, record, restored, text
from muster.stores.dynamodb.writes import ABSENT

FORGOTTEN_MOST = 100
"""Samples that one write forgets: it keeps one, so the rest goes in a few minutes."""


async def keep(table: Table, sample: PoolSample, *, before: float) -> None:
    await table.update(
        (keys.POOL_SAMPLES, moment(sample.at)),
        "SET #d = :d, #at = :at",
        where=f"{ABSENT} OR #at = :at",
        values={"d": record(sample), "at": sample.at},
    )
    old = await table.query(keys.POOL_SAMPLES, high=moment(before), most=FORGOTTEN_MOST)
    gone = [text(item, "SK") for item in old if text(item, "SK") != moment(before)]
    await table.delete([(keys.POOL_SAMPLES, place) for place in gone])


async def since(table: Table, *, since: float, limit: int) -> Sequence[PoolSample]:
    found = await table.query(keys.POOL_SAMPLES, low=moment(since), most=limit)
    return [restored(PoolSample, item) for item in found]
