from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from muster.domain.cluster import ClusterState, Place
from muster.domain.ids import InstallationId
from muster.domain.operation import Status
from tests.harness import Harness, with_harness
from tests.harness.azure import SUBSCRIPTION, batch, cluster, create, delete, nothing_of_ours

ELSEWHERE = "00000000-0000-4000-8000-000000000002"
ROUND = 310.0
"""Seconds: one round of the duty, and a little."""


@with_harness
async def test_a_cluster_that_a_late_replica_asks_for_after_all_was_undone_is_deleted_again(
    harness: Harness,
) -> None:
    await batch(harness)
    first, second = await harness.replica(), await harness.replica()

    async def stand_still() -> None:
        first.life.pause(harness.loop_time + 400.0)
        await harness.pass_time(0)

    first.interceptor.before("azure.create", stand_still)
    operation = await create(first)
    await harness.pass_time(70.0)  # until its lease is over and the other one has it
    await second.cancel(operation.id)
    assert (await harness.ended(operation)).status is Status.CANCELLED
    harness.arm.put_group("rg-batch", "westeurope", {})  # it was made in the meantime

    async def has_come() -> bool:
        return bool(harness.arm.clusters)

    await harness.until(has_come)
    await harness.pass_time(2 * ROUND)
    assert not harness.arm.clusters
    assert (await cluster(harness)).state is ClusterState.DELETED
    assert not harness.arm.changed


@with_harness
async def test_what_no_record_knows_and_what_others_made_is_left_alone(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    await batch(harness)
    replica = await harness.replica()
    await harness.succeeded(await create(replica))
    await harness.succeeded(await create(replica, "c2"))
    strange, foreign = harness.arm.clusters.values()
    strange.asked = replace(strange.asked, tags={**strange.asked.tags, "muster-cluster": "cl-unknown"})
    foreign.asked = replace(foreign.asked, tags={"muster-installation": "another", "muster-cluster": "cl-1"})
    await harness.pass_time(2 * ROUND)
    assert len(harness.arm.clusters) == 2
    assert sum("and no record" in each.getMessage() for each in caplog.records) == 1


@with_harness
async def test_what_is_ready_or_gone_is_not_touched(harness: Harness) -> None:
    await batch(harness)
    replica = await harness.replica()
    await harness.succeeded(await create(replica))
    await harness.pass_time(ROUND)
    assert (await cluster(harness)).state is ClusterState.READY
    await harness.succeeded(await delete(replica))
    await harness.pass_time(ROUND)
    nothing_of_ours(harness)


@with_harness
async def test_subscriptions_that_no_template_names_any_more_are_searched_too(harness: Harness) -> None:
    await batch(harness)
    replica = await harness.replica()
    await harness.succeeded(await create(replica))
    await harness.succeeded(await delete(replica))
    await batch(harness, subscription=ELSEWHERE)
    searched: set[str] = set()
    listed = harness.clusters.azure.list

    async def noting(account: str, installation: InstallationId) -> Sequence[tuple[Place, Mapping[str, str]]]:
        searched.add(account)
        return await listed(account, installation)

    harness.clusters.azure.list = noting  # type: ignore[method-assign]
    await harness.pass_time(ROUND)
    assert searched == {SUBSCRIPTION, ELSEWHERE}
