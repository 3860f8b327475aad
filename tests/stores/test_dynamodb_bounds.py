"""What one transaction may hold, and how far a claim walks, with as many logs as a store has by default."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from muster.domain.lifecycle import NodeState
from muster.domain.reasons import Reason
from muster.stores.dynamodb import AwsClient, schema
from muster.stores.dynamodb.candidates import Candidates, Hint
from tests.contracts.store_contract.bookkeeping import assert_books_balance
from tests.contracts.store_contract.records import Records
from tests.stores.emulator import over, wired

SHARDS = 16


@pytest.fixture
async def aws() -> AsyncIterator[AwsClient]:
    async with wired() as aws:
        yield aws


async def test_a_forsaken_launch_of_many_machines_is_settled(aws: AwsClient) -> None:
    store = await over(aws, shards=SHARDS)
    records = Records(store)
    operation = await records.leased()
    launch = await records.called(records.plan(operation, size=40), operation.fence)
    machines = [records.machine(launch, state=NodeState.TERMINATING) for _ in range(40)]
    machines = [replace(node, reason=Reason.INTERNAL) for node in machines]
    await records.adopted(launch, machines, fence=operation.fence)
    assert await store.count_nodes(state=NodeState.TERMINATING, template=None) == 40
    assert list(await store.overview.failures(since=0.0, limit=99)) == []
    await assert_books_balance(store)


def test_a_check_tells_of_logs_that_are_half_full() -> None:
    def told(table: int, index: int) -> list[str]:
        described = {"TableSizeBytes": table, "LocalSecondaryIndexes": [{"IndexSizeBytes": index}]}
        return list(schema.crowded(described, shards=SHARDS))

    half = SHARDS * schema.LOG_BYTES // 2
    assert told(half // 2, half // 2 - 1) == []
    (said,) = told(half // 2, half // 2)
    assert said.startswith("its 16 logs hold about 80 GB") and "--shards" in said


async def test_a_claim_leaves_a_queue_that_is_full_of_what_suits_others(
    aws: AwsClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await over(aws, shards=SHARDS)
    records = Records(store)
    (own,) = await records.idle(1)
    others = [Hint(receipt=node.id, node_id=node.id) for node in await records.idle(4, revision=9)]
    looks: list[Hint] = []

    async def one_of_them(_queue: Candidates, _resource_class: str, _most: int) -> list[Hint]:
        looks.extend(others[len(looks) : len(looks) + 1])
        return looks[-1:]

    monkeypatch.setattr(Candidates, "pick_up", one_of_them)
    (taken,) = await records.claim(await records.leased(), 1)
    assert (taken.id, len(looks)) == (own.id, 2)
