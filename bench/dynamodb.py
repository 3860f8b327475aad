"""Measure claims per second on DynamoDB and SQS, beside bare conditional updates on the same emulator.

The floor is one UpdateItem per node on condition of its version, 16 at a time, by the same client. It has no
events, no fence and no candidates. Emulator and claimers share the machine, so only the ratio means
something.
"""

import asyncio
import time
from collections.abc import Sequence

from bench import Figure
from muster.stores.dynamodb import DynamoStore
from tests.contracts.store_contract.records import Records
from tests.stores.emulator import over, wired

NODES = 192
CLAIMERS = 16
GANGS = (1, 4)


async def measure() -> Sequence[Figure]:
    async with wired() as aws:
        floors: list[float] = []
        claimed: dict[int, list[float]] = {gang: [] for gang in GANGS}
        # Alternating runs share whatever else the machine does; the best of each is the least disturbed.
        for _ in range(3):
            floors.append(await _floor(await over(aws)))
            for gang in GANGS:
                claimed[gang].append(await _claims(await over(aws), gang))
    return [_figure(gang, max(values), max(floors)) for gang, values in claimed.items()]


def _figure(gang: int, value: float, floor: float) -> Figure:
    return Figure(
        name=f"claims on DynamoDB, {CLAIMERS} claimers, {gang} at a time",
        value=value,
        unit="nodes/s",
        floor=floor,
        target=0.5,
        note="floor: one bare conditional update per node, 16 at a time, on the same emulator",
    )


async def _floor(store: DynamoStore) -> float:
    table = store._table
    keys = [(f"BARE#{number}", "BARE") for number in range(NODES)]
    for key in keys:
        await table.update(key, "SET #v = :v", where="attribute_not_exists(#PK)", values={"v": 1})

    async def worker(place: int) -> None:
        for key in keys[place::CLAIMERS]:
            await table.update(key, "SET #v = :b", where="#v = :a", values={"a": 1, "b": 2})

    started = time.perf_counter()
    await asyncio.gather(*(worker(place) for place in range(CLAIMERS)))
    return NODES / (time.perf_counter() - started)


async def _claims(store: DynamoStore, gang: int) -> float:
    records = Records(store)
    idle = await records.idle(NODES)
    operations = [await records.leased() for _ in range(CLAIMERS)]
    taken: list[str] = []

    async def claimer(place: int) -> None:
        while got := await records.claim(operations[place], gang):
            taken.extend(node.id for node in got)

    started = time.perf_counter()
    await asyncio.gather(*(claimer(place) for place in range(CLAIMERS)))
    seconds = time.perf_counter() - started
    assert sorted(taken) == [node.id for node in idle], "a node was lost, or claimed twice"
    return NODES / seconds
