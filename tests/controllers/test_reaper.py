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
from tests.stage import Stage, staged


async def doomed(stage: Stage, count: int = 1) -> list[Node]:
    """Condemned nodes; their machines may not be visible yet."""
    await stage.template(max_nodes=1000)
    await stage.cap(1000)
    warm = await stage.warm(count)
    return [
        await stage.store.apply(nodes.condemn(node, now=stage.now, reason=Reason.OPERATOR)) for node in warm
    ]


@staged
async def test_a_condemned_node_is_terminated_when_its_machine_is_gone(stage: Stage) -> None:
    stage.cloud.stop_seconds = 30.0
    (node,) = await doomed(stage)
    reaper = Reaper(stage.ports, stage.settings)

    await reaper.reconcile()
    assert (await stage.node(node.id)).state is NodeState.TERMINATING
    assert len(stage.cloud.boxes[node.machine_id].terminate_calls) == 1
    await stage.pass_time(30.0)
    assert await stage.used() == 1
    await reaper.reconcile()

    gone = await stage.node(node.id)
    assert (gone.state, gone.reason) == (NodeState.TERMINATED, Reason.OPERATOR)
    assert await stage.used() == 0


@staged
async def test_only_nodes_that_are_stored_as_terminating_are_touched(stage: Stage) -> None:
    (node,) = await doomed(stage)
    await stage.warm(2)
    replica = await stage.replica()
    await stage.succeeded(await replica.provision(1))
    replica.life.kill()
    reaper = Reaper(stage.ports, stage.settings)
    for _ in range(5):
        await stage.pass_time(10.0)
        await reaper.reconcile()

    touched = [box.id for box in stage.cloud.boxes.values() if box.terminate_calls]
    assert touched == [node.machine_id]


@staged
async def test_not_found_inside_the_window_is_not_gone(stage: Stage) -> None:
    stage.cloud.lag = 200.0
    (node,) = await doomed(stage)
    reaper = Reaper(stage.ports, stage.settings)

    while stage.now < node.created_at + 195.0:
        await reaper.reconcile()
        assert (await stage.node(node.id)).state is NodeState.TERMINATING
        await stage.pass_time(5.0)
    while (await stage.node(node.id)).state is not NodeState.TERMINATED:
        await reaper.reconcile()
        await stage.pass_time(5.0)

    assert stage.cloud.live() == []
    assert stage.now < node.created_at + stage.cloud.visibility_window


@staged
async def test_not_found_after_the_window_is_gone(stage: Stage) -> None:
    (node,) = await doomed(stage)
    stage.cloud.end(node.machine_id, forgotten=True)
    reaper = Reaper(stage.ports, stage.settings)

    await stage.pass_time(node.created_at + stage.cloud.visibility_window - stage.now - 1.0)
    await reaper.reconcile()
    assert (await stage.node(node.id)).state is NodeState.TERMINATING
    await stage.pass_time(1.0)
    await reaper.reconcile()

    assert (await stage.node(node.id)).state is NodeState.TERMINATED


@staged
async def test_not_found_after_it_was_seen_is_gone_at_once(stage: Stage) -> None:
    stage.cloud.stop_seconds = 10.0
    (node,) = await doomed(stage)
    reaper = Reaper(stage.ports, stage.settings)

    await reaper.reconcile()
    stage.cloud.end(node.machine_id, forgotten=True)
    await reaper.reconcile()

    assert (await stage.node(node.id)).state is NodeState.TERMINATED


@staged
async def test_a_machine_that_does_not_listen_is_asked_again_less_and_less_often(stage: Stage) -> None:
    stage.cloud.deaf = 10
    (node,) = await doomed(stage)
    reaper = Reaper(stage.ports, stage.settings)
    while (await stage.node(node.id)).state is not NodeState.TERMINATED:
        await reaper.reconcile()
        await stage.pass_time(1.0)

    calls = stage.cloud.boxes[node.machine_id].terminate_calls
    pauses = [later - earlier for earlier, later in pairwise(calls)]
    assert len(calls) == 11
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (RETRY_FIRST, RETRY_MOST)


@staged
async def test_a_machine_that_resists_needs_attention_once(stage: Stage) -> None:
    stage.cloud.deaf = 1000
    (node,) = await doomed(stage)
    reaper = Reaper(stage.ports, stage.settings)
    limit = stage.settings.limits.attention
    await stage.pass_time(limit - 1.0)
    await reaper.reconcile()
    assert await stage.events(name="needs_attention") == []

    for _ in range(5):
        await stage.pass_time(10.0)
        await reaper.reconcile()

    (event,) = await stage.events(name="needs_attention")
    assert event.entity_id == node.id
    assert node.machine_id in event.detail


@staged
async def test_a_node_whose_provider_cannot_be_asked_needs_attention_too(stage: Stage) -> None:
    (node,) = await doomed(stage)
    reaper = Reaper(stage.ports, stage.settings)
    stage.cloud.trouble = Uncertain("the credentials have expired")
    for _ in range(3):
        await reaper.reconcile()
        await stage.pass_time(stage.settings.limits.attention)

    (event,) = await stage.events(name="needs_attention")
    assert event.entity_id == node.id


@staged
async def test_a_node_whose_end_is_seen_late_needs_no_attention(stage: Stage) -> None:
    (node,) = await doomed(stage)
    stage.cloud.end(node.machine_id)
    await stage.pass_time(10 * stage.settings.limits.attention)  # nobody was there to look

    await Reaper(stage.ports, stage.settings).reconcile()

    assert (await stage.node(node.id)).state is NodeState.TERMINATED
    assert await stage.events(name="needs_attention") == []


@staged
async def test_nodes_of_a_provider_that_is_gone_are_given_up_aloud_and_are_orphans_if_it_returns(
    stage: Stage,
) -> None:
    (node,) = await doomed(stage)
    await stage.pass_time(2 * UNREACHABLE)  # also of a node that has resisted for long
    reaper = Reaper(replace(stage.ports, providers={}), stage.settings)
    await reaper.reconcile()
    await stage.pass_time(UNREACHABLE - 0.5)
    await reaper.reconcile()
    assert (await stage.node(node.id)).state is NodeState.TERMINATING
    assert [event.entity_id for event in await stage.events(name="needs_attention")] == [node.id]
    await stage.pass_time(0.5)
    await reaper.reconcile()

    assert (await stage.node(node.id)).state is NodeState.TERMINATED
    assert await stage.used() == 0
    assert "check it for machine " + node.machine_id in (await stage.events(node.id))[-1].detail
    orphans = Orphans(stage.ports, stage.settings)
    for _ in range(2):
        await orphans.reconcile()
        await stage.pass_time(stage.cloud.visibility_window)
    await orphans.reconcile()
    (again,) = await stage.nodes(NodeState.TERMINATING)
    assert again.machine_id == node.machine_id


@staged
async def test_a_provider_that_cannot_be_asked_ends_nothing(stage: Stage) -> None:
    (node,) = await doomed(stage)
    reaper = Reaper(stage.ports, stage.settings)
    stage.cloud.trouble = Uncertain("the region is down")
    await stage.pass_time(1000.0)
    await reaper.reconcile()
    assert (await stage.node(node.id)).state is NodeState.TERMINATING
    assert await stage.used() == 1

    stage.cloud.trouble = None
    await reaper.reconcile()
    await reaper.reconcile()
    assert (await stage.node(node.id)).state is NodeState.TERMINATED


@staged
async def test_many_condemned_nodes_are_reaped_in_one_pass(stage: Stage) -> None:
    await doomed(stage, count=250)
    reaper = Reaper(stage.ports, stage.settings)

    await reaper.reconcile()
    await reaper.reconcile()

    assert stage.cloud.live() == []
    assert len(await stage.nodes(NodeState.TERMINATED)) == 250
