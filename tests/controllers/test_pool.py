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
from tests.harness import NEVER_BOOTS, Behaviour, Harness, gives, loses_the_reply, with_harness
from tests.harness.interceptor import CallInterceptor, watched_store


async def idle(harness: Harness, revision: int | None = None) -> list[Node]:
    nodes = await harness.nodes(NodeState.IDLE)
    return [node for node in nodes if revision in (None, node.revision)]


@with_harness
async def test_the_minimum_is_filled_by_one_refill(harness: Harness) -> None:
    await harness.template(min_idle=3)
    await harness.replica()

    await harness.count(3, NodeState.IDLE, within=30.0)
    await harness.pass_time(300.0)

    (refill,) = await harness.of_kind(Kind.REFILL)
    assert refill.status is Status.SUCCEEDED
    assert len(harness.cloud.boxes) == 3
    assert all(node.operation_id is None and node.assignment_id is None for node in await idle(harness))


@with_harness
async def test_a_full_pool_asks_for_nothing_but_its_idle_nodes(harness: Harness) -> None:
    await harness.template(min_idle=2)
    replica = await harness.replica()
    await harness.count(2, NodeState.IDLE, within=30.0)
    replica.life.kill()
    watched = CallInterceptor()
    watched.armed = True
    ports = replace(harness.ports, store=watched_store(harness.store, watched))

    keeper = PoolKeeper(ports, harness.settings, replica.plane.desk)
    for _ in range(2):
        await keeper.reconcile()
        assert watched.calls == ["templates", "nodes", "offer"]
        watched.calls.clear()

    await harness.template(min_idle=3)
    await keeper.reconcile()
    assert {"pool", "usage", "count_nodes"} <= set(watched.calls)


@with_harness
async def test_a_full_pool_that_loses_a_node_is_looked_at_anew(harness: Harness) -> None:
    await harness.template(min_idle=2, max_nodes=9)
    replica = await harness.replica()
    await harness.count(2, NodeState.IDLE, within=30.0)
    await harness.pass_time(30.0)
    replica.life.kill()
    keeper = PoolKeeper(harness.ports, harness.settings, replica.plane.desk)
    await keeper.reconcile()
    before = len(await harness.of_kind(Kind.REFILL))

    (node, _) = await idle(harness)
    await harness.store.apply(nodes.condemn(node, now=harness.now, reason=Reason.OPERATOR))
    await keeper.reconcile()

    assert len(await harness.of_kind(Kind.REFILL)) == before + 1


@with_harness
async def test_claims_are_led_to_everything_that_is_idle(harness: Harness) -> None:
    offered: list[list[str]] = []

    async def offer(_store: SqlStore, nodes: Sequence[Node]) -> None:
        offered.append([node.id for node in nodes])

    await harness.template(min_idle=2)
    with patch.object(SqlStore, "offer", offer):
        await harness.replica()
        await harness.count(2, NodeState.IDLE, within=30.0)
        await harness.pass_time(20.0)
    assert sorted(offered[-1]) == sorted(node.id for node in await idle(harness))


@with_harness
async def test_two_replicas_never_refill_at_the_same_time(harness: Harness) -> None:
    await harness.template(min_idle=2)
    harness.agents.usual = Behaviour(boot=100.0)
    harness.cloud.script(loses_the_reply())
    first, _ = await harness.replica(), await harness.replica()
    await harness.pass_time(40.0)
    first.life.kill()

    await harness.count(2, NodeState.IDLE)
    await harness.pass_time(300.0)

    assert len(await harness.of_kind(Kind.REFILL)) == 1
    assert len(harness.cloud.boxes) == 2


@with_harness
async def test_what_is_taken_from_the_pool_is_made_again(harness: Harness) -> None:
    await harness.template(min_idle=2)
    replica = await harness.replica()
    await harness.count(2, NodeState.IDLE)

    await harness.succeeded(await replica.provision(1))

    await harness.count(2, NodeState.IDLE, within=30.0)
    assert len(await harness.nodes(NodeState.RUNNING)) == 1


@with_harness
async def test_nodes_that_hold_the_minimum_are_renewed_and_the_others_expire(harness: Harness) -> None:
    await harness.template(min_idle=2, idle_timeout=100.0)
    await harness.warm(5)
    await harness.replica()

    await harness.count(2, NodeState.IDLE, within=120.0)
    kept = await idle(harness)
    await harness.pass_time(2000.0)

    assert [node.id for node in await idle(harness)] == [node.id for node in kept]
    assert len(harness.cloud.boxes) == 5
    assert {node.reason for node in await harness.nodes(NodeState.TERMINATED)} == {Reason.IDLE_TIMEOUT}
    for node in kept:
        told = await harness.history(node.id)
        assert "renewed" in told and "extend" not in told, "what is routine has a name of its own"


@with_harness
async def test_the_minimum_stays_warm_for_callers_that_are_yet_to_come(harness: Harness) -> None:
    await harness.template(min_idle=2, idle_timeout=100.0)
    replica = await harness.replica()
    await harness.count(2, NodeState.IDLE)
    first = await harness.succeeded(await replica.provision(2, run="first", owner="alice"))
    await harness.count(2, NodeState.IDLE)
    await harness.succeeded(await replica.release(first.id))

    await harness.pass_time(2000.0)
    second = await harness.succeeded(await replica.provision(2, run="second", owner="bob"))

    assert second.warm == 2


@with_harness
async def test_old_nodes_are_retired_once_their_replacement_is_idle(harness: Harness) -> None:
    await harness.template(min_idle=2, max_nodes=10)
    await harness.replica()
    await harness.count(2, NodeState.IDLE)
    harness.agents.usual = Behaviour(boot=60.0)
    await harness.template(min_idle=2, max_nodes=10, boot_script="echo new")
    least = 2

    while len(await idle(harness, revision=2)) < 2:
        least = min(least, len(await idle(harness)))
        await harness.pass_time(1.0)
    await harness.count(2, NodeState.TERMINATED, within=30.0)
    await harness.nothing_is_left(idle=2)

    assert least == 2
    assert len(await idle(harness, revision=2)) == 2
    assert {node.reason for node in await harness.nodes(NodeState.TERMINATED)} == {Reason.RETIRED}


@with_harness
async def test_without_room_old_nodes_are_replaced_one_at_a_time(harness: Harness) -> None:
    await harness.template(min_idle=3, max_nodes=3)
    await harness.replica()
    await harness.count(3, NodeState.IDLE)
    harness.agents.usual = Behaviour(boot=60.0)
    await harness.template(min_idle=3, max_nodes=3, boot_script="echo new")
    least = 3

    while len(await idle(harness, revision=2)) < 3:
        least = min(least, len(await idle(harness)))
        await harness.pass_time(1.0)

    assert least == 2
    assert harness.cloud.most == 3
    await harness.nothing_is_left(idle=3)


@with_harness
async def test_an_idle_node_that_died_is_buried_and_replaced(harness: Harness) -> None:
    await harness.template(min_idle=1)
    await harness.replica()
    (node,) = await harness.count(1, NodeState.IDLE)
    harness.agents.of(node.id).silence()
    silent_since = harness.now

    async def buried() -> bool:
        return (await harness.node(node.id)).state is not NodeState.IDLE

    await harness.until(buried)
    limits = harness.settings.limits
    patience = limits.stale_after + limits.dead_after
    assert patience - 6.0 <= harness.now - silent_since <= patience + 21.0  # two duties, ten seconds each
    assert (await harness.node(node.id)).reason is Reason.HEARTBEAT_LOST
    (other,) = await harness.count(1, NodeState.IDLE)
    assert other.id != node.id


@with_harness
async def test_a_refill_takes_what_it_gets(harness: Harness) -> None:
    await harness.template(min_idle=3)
    harness.cloud.script(gives(1))
    await harness.replica()

    await harness.count(1, NodeState.IDLE, within=15.0)
    first, *_ = await harness.of_kind(Kind.REFILL)
    assert (await harness.ended(first)).status is Status.SUCCEEDED
    await harness.count(3, NodeState.IDLE)
    assert harness.cloud.most == 3


@with_harness
async def test_after_a_refill_that_failed_the_pool_rests(harness: Harness) -> None:
    await harness.template(min_idle=1)
    harness.cloud.script(gives(0), gives(0))
    await harness.replica()

    await harness.count(1, NodeState.IDLE)

    (first, _), (second, _), (third, _) = harness.cloud.launches
    assert second - first >= AFTER_FAILURE
    assert third - second >= AFTER_FAILURE
    statuses = [(await harness.ended(refill)).status for refill in await harness.of_kind(Kind.REFILL)]
    assert statuses == [Status.FAILED, Status.FAILED, Status.SUCCEEDED]


@with_harness
async def test_a_refill_whose_node_does_not_boot_fails_and_leaves_nothing(harness: Harness) -> None:
    await harness.template(min_idle=1, provision_timeout=100.0)
    harness.agents.script(NEVER_BOOTS)
    await harness.replica()
    await harness.pass_time(20.0)
    (first,) = await harness.of_kind(Kind.REFILL)

    refill = await harness.ended(first)

    assert refill.verdict is not None
    assert refill.verdict.reason is Reason.BOOT_TIMEOUT
    await harness.nothing_is_left(idle=1)


@with_harness
async def test_a_refill_never_takes_room_from_others(harness: Harness) -> None:
    await harness.cap(3)
    await harness.template(min_idle=2)
    await harness.template(name="other")
    await harness.warm(2, "other")
    await harness.replica()

    await harness.pass_time(120.0)

    assert len(await harness.nodes(NodeState.IDLE, template="other")) == 2
    assert len(await harness.nodes(NodeState.IDLE, template="ci")) == 1


@with_harness
async def test_a_refill_of_a_revision_that_was_replaced_is_thrown_away(harness: Harness) -> None:
    await harness.template(min_idle=1)
    harness.agents.script(Behaviour(boot=100.0))
    await harness.replica()
    await harness.count(1, NodeState.CREATED)
    await harness.template(min_idle=1, boot_script="echo new")

    await harness.count(1, NodeState.IDLE)
    await harness.nothing_is_left(idle=1)

    (node,) = await idle(harness)
    assert node.revision == 2
    first, *_ = await harness.of_kind(Kind.REFILL)
    assert first.verdict is not None
    assert first.verdict.reason is Reason.RETIRED
