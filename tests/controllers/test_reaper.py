from dataclasses import replace
from itertools import pairwise

from muster.controllers.orphans import Orphans
from muster.controllers.reaper import RETRY_FIRST, RETRY_MOST, Reaper
from muster.domain import node as nodes
from muster.domain.errors import Uncertain
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.reasons import Reason
from muster.operations.concurrency import UNREACHABLE
from tests.harness import Harness, with_harness


async def doomed(harness: Harness, count: int = 1) -> list[Node]:
    """Condemned nodes; their machines may not be visible yet."""
    await harness.template(max_nodes=1000)
    await harness.cap(1000)
    warm = await harness.warm(count)
    return [
        await harness.store.apply(nodes.condemn(node, now=harness.now, reason=Reason.OPERATOR))
        for node in warm
    ]


@with_harness
async def test_a_condemned_node_is_terminated_when_its_machine_is_gone(harness: Harness) -> None:
    harness.cloud.stop_seconds = 30.0
    (node,) = await doomed(harness)
    reaper = Reaper(harness.ports, harness.settings)

    await reaper.reconcile()
    assert (await harness.node(node.id)).state is NodeState.TERMINATING
    assert len(harness.cloud.boxes[node.machine_id].terminate_calls) == 1
    await harness.pass_time(30.0)
    assert await harness.used() == 1
    await reaper.reconcile()

    gone = await harness.node(node.id)
    assert (gone.state, gone.reason) == (NodeState.TERMINATED, Reason.OPERATOR)
    assert await harness.used() == 0


@with_harness
async def test_only_nodes_that_are_stored_as_terminating_are_touched(harness: Harness) -> None:
    (node,) = await doomed(harness)
    await harness.warm(2)
    replica = await harness.replica()
    await harness.succeeded(await replica.provision(1))
    replica.life.kill()
    reaper = Reaper(harness.ports, harness.settings)
    for _ in range(5):
        await harness.pass_time(10.0)
        await reaper.reconcile()

    touched = [box.id for box in harness.cloud.boxes.values() if box.terminate_calls]
    assert touched == [node.machine_id]


@with_harness
async def test_not_found_inside_the_window_is_not_gone(harness: Harness) -> None:
    harness.cloud.lag = 200.0
    (node,) = await doomed(harness)
    reaper = Reaper(harness.ports, harness.settings)

    while harness.now < node.created_at + 195.0:
        await reaper.reconcile()
        assert (await harness.node(node.id)).state is NodeState.TERMINATING
        await harness.pass_time(5.0)
    while (await harness.node(node.id)).state is not NodeState.TERMINATED:
        await reaper.reconcile()
        await harness.pass_time(5.0)

    assert harness.cloud.live() == []
    assert harness.now < node.created_at + harness.cloud.visibility_window


@with_harness
async def test_not_found_after_the_window_is_gone(harness: Harness) -> None:
    (node,) = await doomed(harness)
    harness.cloud.end(node.machine_id, forgotten=True)
    reaper = Reaper(harness.ports, harness.settings)

    await harness.pass_time(node.created_at + harness.cloud.visibility_window - harness.now - 1.0)
    await reaper.reconcile()
    assert (await harness.node(node.id)).state is NodeState.TERMINATING
    await harness.pass_time(1.0)
    await reaper.reconcile()

    assert (await harness.node(node.id)).state is NodeState.TERMINATED


@with_harness
async def test_not_found_after_it_was_seen_is_gone_at_once(harness: Harness) -> None:
    harness.cloud.stop_seconds = 10.0
    (node,) = await doomed(harness)
    reaper = Reaper(harness.ports, harness.settings)

    await reaper.reconcile()
    harness.cloud.end(node.machine_id, forgotten=True)
    await reaper.reconcile()

    assert (await harness.node(node.id)).state is NodeState.TERMINATED


@with_harness
async def test_a_machine_that_does_not_listen_is_asked_again_less_and_less_often(harness: Harness) -> None:
    harness.cloud.deaf = 10
    (node,) = await doomed(harness)
    reaper = Reaper(harness.ports, harness.settings)
    while (await harness.node(node.id)).state is not NodeState.TERMINATED:
        await reaper.reconcile()
        await harness.pass_time(1.0)

    calls = harness.cloud.boxes[node.machine_id].terminate_calls
    pauses = [later - earlier for earlier, later in pairwise(calls)]
    assert len(calls) == 11
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (RETRY_FIRST, RETRY_MOST)


@with_harness
async def test_a_machine_that_resists_needs_attention_once(harness: Harness) -> None:
    harness.cloud.deaf = 1000
    (node,) = await doomed(harness)
    reaper = Reaper(harness.ports, harness.settings)
    limit = harness.settings.limits.attention
    await harness.pass_time(limit - 1.0)
    await reaper.reconcile()
    assert await harness.events(name="needs_attention") == []

    for _ in range(5):
        await harness.pass_time(10.0)
        await reaper.reconcile()

    (event,) = await harness.events(name="needs_attention")
    assert event.entity_id == node.id
    assert node.machine_id in event.detail


@with_harness
async def test_a_node_whose_provider_cannot_be_asked_needs_attention_too(harness: Harness) -> None:
    (node,) = await doomed(harness)
    reaper = Reaper(harness.ports, harness.settings)
    harness.cloud.trouble = Uncertain("the credentials have expired")
    for _ in range(3):
        await reaper.reconcile()
        await harness.pass_time(harness.settings.limits.attention)

    (event,) = await harness.events(name="needs_attention")
    assert event.entity_id == node.id


@with_harness
async def test_a_node_whose_end_is_seen_late_needs_no_attention(harness: Harness) -> None:
    (node,) = await doomed(harness)
    harness.cloud.end(node.machine_id)
    await harness.pass_time(10 * harness.settings.limits.attention)  # no replica was there to look

    await Reaper(harness.ports, harness.settings).reconcile()

    assert (await harness.node(node.id)).state is NodeState.TERMINATED
    assert await harness.events(name="needs_attention") == []


@with_harness
async def test_nodes_of_a_provider_that_is_gone_are_given_up_aloud_and_are_orphans_if_it_returns(
    harness: Harness,
) -> None:
    (node,) = await doomed(harness)
    await harness.pass_time(2 * UNREACHABLE)  # also of a node that has resisted for long
    reaper = Reaper(replace(harness.ports, providers={}), harness.settings)
    await reaper.reconcile()
    await harness.pass_time(UNREACHABLE - 0.5)
    await reaper.reconcile()
    assert (await harness.node(node.id)).state is NodeState.TERMINATING
    assert [event.entity_id for event in await harness.events(name="needs_attention")] == [node.id]
    await harness.pass_time(0.5)
    await reaper.reconcile()

    assert (await harness.node(node.id)).state is NodeState.TERMINATED
    assert await harness.used() == 0
    assert "check it for machine " + node.machine_id in (await harness.events(node.id))[-1].detail
    orphans = Orphans(harness.ports, harness.settings)
    for _ in range(2):
        await orphans.reconcile()
        await harness.pass_time(harness.cloud.visibility_window)
    await orphans.reconcile()
    (again,) = await harness.nodes(NodeState.TERMINATING)
    assert again.machine_id == node.machine_id


@with_harness
async def test_a_provider_that_cannot_be_asked_ends_nothing(harness: Harness) -> None:
    (node,) = await doomed(harness)
    reaper = Reaper(harness.ports, harness.settings)
    harness.cloud.trouble = Uncertain("the region is down")
    await harness.pass_time(1000.0)
    await reaper.reconcile()
    assert (await harness.node(node.id)).state is NodeState.TERMINATING
    assert await harness.used() == 1

    harness.cloud.trouble = None
    await reaper.reconcile()
    await reaper.reconcile()
    assert (await harness.node(node.id)).state is NodeState.TERMINATED


@with_harness
async def test_many_condemned_nodes_are_reaped_in_one_pass(harness: Harness) -> None:
    await doomed(harness, count=250)
    reaper = Reaper(harness.ports, harness.settings)

    await reaper.reconcile()
    await reaper.reconcile()

    assert harness.cloud.live() == []
    assert len(await harness.nodes(NodeState.TERMINATED)) == 250
