"""The warm minimum, kept by refills; old revisions retired; the dead buried."""

from collections.abc import Sequence
from dataclasses import replace
from unittest.mock import patch

from muster.controllers.pool import AFTER_FAILURE, PoolKeeper
from muster.domain import node as nodes
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Kind, Status
from muster.domain.reasons import Reason
from muster.stores.sql import SqlStore
from tests.stage import NEVER_BOOTS, Manner, Stage, gives, loses_the_reply, staged
from tests.stage.ambush import Ambush, watched_store


async def idle(stage: Stage, revision: int | None = None) -> list[Node]:
    nodes = await stage.nodes(NodeState.IDLE)
    return [node for node in nodes if revision in (None, node.revision)]


@staged
async def test_the_minimum_is_filled_by_one_refill(stage: Stage) -> None:
    await stage.template(min_idle=3)
    await stage.replica()

    await stage.count(3, NodeState.IDLE, within=30.0)
    await stage.pass_time(300.0)

    (refill,) = await stage.of_kind(Kind.REFILL)
    assert refill.status is Status.SUCCEEDED
    assert len(stage.cloud.boxes) == 3
    assert all(node.operation_id is None and node.assignment_id is None for node in await idle(stage))


@staged
async def test_a_full_pool_asks_for_nothing_but_its_idle_nodes(stage: Stage) -> None:
    await stage.template(min_idle=2)
    replica = await stage.replica()
    await stage.count(2, NodeState.IDLE, within=30.0)
    replica.life.kill()
    watched = Ambush()
    watched.armed = True
    ports = replace(stage.ports, store=watched_store(stage.store, watched))

    await PoolKeeper(ports, stage.settings, replica.plane.desk).reconcile()
    assert watched.calls == ["templates", "nodes", "offer"]

    (node, _) = await idle(stage)
    await stage.store.apply(nodes.condemn(node, now=stage.now, reason=Reason.OPERATOR))
    await PoolKeeper(ports, stage.settings, replica.plane.desk).reconcile()
    assert {"pool", "usage", "count_nodes"} <= set(watched.calls)


@staged
async def test_claims_are_led_to_everything_that_is_idle(stage: Stage) -> None:
    offered: list[list[str]] = []

    async def offer(_store: SqlStore, nodes: Sequence[Node]) -> None:
        offered.append([node.id for node in nodes])

    await stage.template(min_idle=2)
    with patch.object(SqlStore, "offer", offer):
        await stage.replica()
        await stage.count(2, NodeState.IDLE, within=30.0)
        await stage.pass_time(20.0)
    assert sorted(offered[-1]) == sorted(node.id for node in await idle(stage))


@staged
async def test_two_replicas_never_refill_at_the_same_time(stage: Stage) -> None:
    await stage.template(min_idle=2)
    stage.agents.usual = Manner(boot=100.0)
    stage.cloud.script(loses_the_reply())
    first, _ = await stage.replica(), await stage.replica()
    await stage.pass_time(40.0)
    first.life.kill()

    await stage.count(2, NodeState.IDLE)
    await stage.pass_time(300.0)

    assert len(await stage.of_kind(Kind.REFILL)) == 1
    assert len(stage.cloud.boxes) == 2


@staged
async def test_what_is_taken_from_the_pool_is_made_again(stage: Stage) -> None:
    await stage.template(min_idle=2)
    replica = await stage.replica()
    await stage.count(2, NodeState.IDLE)

    await stage.succeeded(await replica.provision(1))

    await stage.count(2, NodeState.IDLE, within=30.0)
    assert len(await stage.nodes(NodeState.RUNNING)) == 1


@staged
async def test_nodes_that_hold_the_minimum_are_renewed_and_the_others_expire(stage: Stage) -> None:
    await stage.template(min_idle=2, idle_timeout=100.0)
    await stage.warm(5)
    await stage.replica()

    await stage.count(2, NodeState.IDLE, within=120.0)
    kept = await idle(stage)
    await stage.pass_time(2000.0)

    assert [node.id for node in await idle(stage)] == [node.id for node in kept]
    assert len(stage.cloud.boxes) == 5
    assert {node.reason for node in await stage.nodes(NodeState.TERMINATED)} == {Reason.IDLE_TIMEOUT}
    for node in kept:
        told = await stage.history(node.id)
        assert "renewed" in told and "extend" not in told, "what is routine has a name of its own"


@staged
async def test_the_minimum_stays_warm_for_callers_nobody_has_seen(stage: Stage) -> None:
    await stage.template(min_idle=2, idle_timeout=100.0)
    replica = await stage.replica()
    await stage.count(2, NodeState.IDLE)
    first = await stage.succeeded(await replica.provision(2, run="first", owner="alice"))
    await stage.count(2, NodeState.IDLE)
    await stage.succeeded(await replica.release(first.id))

    await stage.pass_time(2000.0)
    second = await stage.succeeded(await replica.provision(2, run="second", owner="bob"))

    assert second.warm == 2


@staged
async def test_old_nodes_are_retired_once_their_replacement_is_idle(stage: Stage) -> None:
    await stage.template(min_idle=2, max_nodes=10)
    await stage.replica()
    await stage.count(2, NodeState.IDLE)
    stage.agents.usual = Manner(boot=60.0)
    await stage.template(min_idle=2, max_nodes=10, boot_script="echo new")
    least = 2

    while len(await idle(stage, revision=2)) < 2:
        least = min(least, len(await idle(stage)))
        await stage.pass_time(1.0)
    await stage.count(2, NodeState.TERMINATED, within=30.0)
    await stage.nothing_is_left(idle=2)

    assert least == 2
    assert len(await idle(stage, revision=2)) == 2
    assert {node.reason for node in await stage.nodes(NodeState.TERMINATED)} == {Reason.RETIRED}


@staged
async def test_without_room_old_nodes_are_replaced_one_at_a_time(stage: Stage) -> None:
    await stage.template(min_idle=3, max_nodes=3)
    await stage.replica()
    await stage.count(3, NodeState.IDLE)
    stage.agents.usual = Manner(boot=60.0)
    await stage.template(min_idle=3, max_nodes=3, boot_script="echo new")
    least = 3

    while len(await idle(stage, revision=2)) < 3:
        least = min(least, len(await idle(stage)))
        await stage.pass_time(1.0)

    assert least == 2
    assert stage.cloud.most == 3
    await stage.nothing_is_left(idle=3)


@staged
async def test_an_idle_node_that_died_is_buried_and_replaced(stage: Stage) -> None:
    await stage.template(min_idle=1)
    await stage.replica()
    (node,) = await stage.count(1, NodeState.IDLE)
    stage.agents.of(node.id).silence()
    silent_since = stage.now

    async def buried() -> bool:
        return (await stage.node(node.id)).state is not NodeState.IDLE

    await stage.until(buried)
    limits = stage.settings.limits
    patience = limits.stale_after + limits.dead_after
    assert patience - 6.0 <= stage.now - silent_since <= patience + 21.0  # two duties, ten seconds each
    assert (await stage.node(node.id)).reason is Reason.HEARTBEAT_LOST
    (other,) = await stage.count(1, NodeState.IDLE)
    assert other.id != node.id


@staged
async def test_a_refill_takes_what_it_gets(stage: Stage) -> None:
    await stage.template(min_idle=3)
    stage.cloud.script(gives(1))
    await stage.replica()

    await stage.count(1, NodeState.IDLE, within=15.0)
    first, *_ = await stage.of_kind(Kind.REFILL)
    assert (await stage.ended(first)).status is Status.SUCCEEDED
    await stage.count(3, NodeState.IDLE)
    assert stage.cloud.most == 3


@staged
async def test_after_a_refill_that_failed_the_pool_rests(stage: Stage) -> None:
    await stage.template(min_idle=1)
    stage.cloud.script(gives(0), gives(0))
    await stage.replica()

    await stage.count(1, NodeState.IDLE)

    (first, _), (second, _), (third, _) = stage.cloud.launches
    assert second - first >= AFTER_FAILURE
    assert third - second >= AFTER_FAILURE
    statuses = [(await stage.ended(refill)).status for refill in await stage.of_kind(Kind.REFILL)]
    assert statuses == [Status.FAILED, Status.FAILED, Status.SUCCEEDED]


@staged
async def test_a_refill_whose_node_does_not_boot_fails_and_leaves_nothing(stage: Stage) -> None:
    await stage.template(min_idle=1, provision_timeout=100.0)
    stage.agents.script(NEVER_BOOTS)
    await stage.replica()
    await stage.pass_time(20.0)
    (first,) = await stage.of_kind(Kind.REFILL)

    refill = await stage.ended(first)

    assert refill.verdict is not None
    assert refill.verdict.reason is Reason.BOOT_TIMEOUT
    await stage.nothing_is_left(idle=1)


@staged
async def test_a_refill_never_takes_room_from_others(stage: Stage) -> None:
    await stage.cap(3)
    await stage.template(min_idle=2)
    await stage.template(name="other")
    await stage.warm(2, "other")
    await stage.replica()

    await stage.pass_time(120.0)

    assert len(await stage.nodes(NodeState.IDLE, template="other")) == 2
    assert len(await stage.nodes(NodeState.IDLE, template="ci")) == 1


@staged
async def test_a_refill_of_a_revision_that_was_replaced_is_thrown_away(stage: Stage) -> None:
    await stage.template(min_idle=1)
    stage.agents.script(Manner(boot=100.0))
    await stage.replica()
    await stage.count(1, NodeState.CREATED)
    await stage.template(min_idle=1, boot_script="echo new")

    await stage.count(1, NodeState.IDLE)
    await stage.nothing_is_left(idle=1)

    (node,) = await idle(stage)
    assert node.revision == 2
    first, *_ = await stage.of_kind(Kind.REFILL)
    assert first.verdict is not None
    assert first.verdict.reason is Reason.RETIRED
