from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from muster.domain.cluster import ClusterState, Place
from muster.domain.ids import InstallationId
from muster.domain.operation import Status
from tests.stage import Stage, staged
from tests.stage.azure import SUBSCRIPTION, batch, cluster, create, delete, nothing_of_ours

ELSEWHERE = "00000000-0000-4000-8000-000000000002"
ROUND = 310.0
"""Seconds: one round of the duty, and a little."""


@staged
async def test_a_cluster_that_a_late_replica_asks_for_after_all_was_undone_is_deleted_again(
    stage: Stage,
) -> None:
    await batch(stage)
    first, second = await stage.replica(), await stage.replica()

    async def stand_still() -> None:
        first.life.pause(stage.loop_time + 400.0)
        await stage.pass_time(0)

    first.ambush.before("azure.create", stand_still)
    operation = await create(first)
    await stage.pass_time(70.0)  # until its lease is over and the other one has it
    await second.cancel(operation.id)
    assert (await stage.ended(operation)).status is Status.CANCELLED
    stage.arm.put_group("rg-batch", "westeurope", {})  # somebody made it in the meantime

    async def has_come() -> bool:
        return bool(stage.arm.clusters)

    await stage.until(has_come)
    await stage.pass_time(2 * ROUND)
    assert not stage.arm.clusters
    assert (await cluster(stage)).state is ClusterState.DELETED
    assert not stage.arm.changed


@staged
async def test_what_no_record_knows_and_what_others_made_is_left_alone(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    await batch(stage)
    replica = await stage.replica()
    await stage.succeeded(await create(replica))
    await stage.succeeded(await create(replica, "c2"))
    strange, foreign = stage.arm.clusters.values()
    strange.asked = replace(strange.asked, tags={**strange.asked.tags, "muster-cluster": "cl-unknown"})
    foreign.asked = replace(foreign.asked, tags={"muster-installation": "another", "muster-cluster": "cl-1"})
    await stage.pass_time(2 * ROUND)
    assert len(stage.arm.clusters) == 2
    assert sum("and no record" in each.getMessage() for each in caplog.records) == 1


@staged
async def test_what_is_ready_or_gone_is_not_touched(stage: Stage) -> None:
    await batch(stage)
    replica = await stage.replica()
    await stage.succeeded(await create(replica))
    await stage.pass_time(ROUND)
    assert (await cluster(stage)).state is ClusterState.READY
    await stage.succeeded(await delete(replica))
    await stage.pass_time(ROUND)
    nothing_of_ours(stage)


@staged
async def test_subscriptions_that_no_template_names_any_more_are_searched_too(stage: Stage) -> None:
    await batch(stage)
    replica = await stage.replica()
    await stage.succeeded(await create(replica))
    await stage.succeeded(await delete(replica))
    await batch(stage, subscription=ELSEWHERE)
    searched: set[str] = set()
    listed = stage.clusters.azure.list

    async def noting(account: str, installation: InstallationId) -> Sequence[tuple[Place, Mapping[str, str]]]:
        searched.add(account)
        return await listed(account, installation)

    stage.clusters.azure.list = noting  # type: ignore[method-assign]
    await stage.pass_time(ROUND)
    assert searched == {SUBSCRIPTION, ELSEWHERE}
