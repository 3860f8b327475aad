from dataclasses import replace

from muster.controllers.vanished_machines import VanishedMachines
from muster.domain.errors import Uncertain
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.reasons import Reason
from tests.stage import Stage, staged
from tests.stage.cloud import aloof


async def a_node_without_machine(stage: Stage, *, forgotten: bool = True) -> Node:
    """Its machine is gone, its agent too, and the provider may not even know of it any more."""
    await stage.template(idle_timeout=5000.0)
    (node,) = await stage.warm(1)
    stage.agents.of(node.id).die()
    stage.cloud.end(node.machine_id, forgotten=forgotten)
    return node


async def state(stage: Stage, node: Node) -> NodeState:
    return (await stage.node(node.id)).state


@staged
async def test_a_machine_that_is_missing_twice_past_the_window_has_vanished(stage: Stage) -> None:
    node = await a_node_without_machine(stage)
    vanished = VanishedMachines(stage.ports, stage.watch_tracker)
    await stage.pass_time(stage.cloud.visibility_window)

    await vanished.reconcile()
    assert await state(stage, node) is NodeState.IDLE
    await vanished.reconcile()

    gone = await stage.node(node.id)
    assert (gone.state, gone.reason) == (NodeState.TERMINATING, Reason.MACHINE_GONE)
    assert gone.detail.endswith(f"no longer lists machine {node.machine_id}")


@staged
async def test_a_machine_that_the_provider_calls_gone_is_believed_at_the_first_look(stage: Stage) -> None:
    node = await a_node_without_machine(stage, forgotten=False)
    stage.cloud.boxes[node.machine_id].why = "taken back"
    await VanishedMachines(stage.ports, stage.watch_tracker).reconcile()

    gone = await stage.node(node.id)
    assert (gone.state, gone.reason) == (NodeState.TERMINATING, Reason.MACHINE_GONE)
    assert gone.detail == f"machine {node.machine_id} of cloud has ended: taken back"


@staged
async def test_a_machine_that_stops_without_our_asking_is_believed_though_it_is_listed(stage: Stage) -> None:
    await stage.template(idle_timeout=5000.0)
    (node,) = await stage.warm(1)
    box = stage.cloud.boxes[node.machine_id]
    box.stopping_at, box.gone_at = stage.now, stage.now + 1000.0
    await VanishedMachines(stage.ports, stage.watch_tracker).reconcile()
    assert await state(stage, node) is NodeState.TERMINATING


@staged
async def test_a_node_whose_machine_was_taken_back_is_told_so(stage: Stage) -> None:
    node = await a_node_without_machine(stage, forgotten=False)
    stage.cloud.boxes[node.machine_id].reason = Reason.INTERRUPTED
    await VanishedMachines(stage.ports, stage.watch_tracker).reconcile()
    assert (await stage.node(node.id)).reason is Reason.INTERRUPTED


@staged
async def test_inside_the_window_a_missing_machine_proves_nothing(stage: Stage) -> None:
    node = await a_node_without_machine(stage)
    vanished = VanishedMachines(stage.ports, stage.watch_tracker)
    await stage.pass_time(node.created_at + stage.cloud.visibility_window - stage.now - 1.0)

    await vanished.reconcile()
    await vanished.reconcile()
    await vanished.reconcile()
    assert await state(stage, node) is NodeState.IDLE
    await stage.pass_time(1.0)
    await vanished.reconcile()
    assert await state(stage, node) is NodeState.IDLE  # the first time that counts


@staged
async def test_a_fresh_beat_saves_a_node_whatever_the_provider_says(stage: Stage) -> None:
    await stage.template(idle_timeout=5000.0)
    (node,) = await stage.warm(1)
    stage.cloud.boxes[node.machine_id].visible_at = stage.now + 4000.0
    vanished = VanishedMachines(stage.ports, stage.watch_tracker)
    await stage.pass_time(1000.0)

    for _ in range(3):
        await vanished.reconcile()
        await stage.pass_time(60.0)
    assert await state(stage, node) is NodeState.IDLE

    stage.agents.of(node.id).silence()
    await stage.pass_time(stage.settings.limits.stale_after + 6.0)
    await vanished.reconcile()
    await vanished.reconcile()
    assert await state(stage, node) is NodeState.TERMINATING


@staged
async def test_a_machine_that_is_listed_again_in_between_starts_anew(stage: Stage) -> None:
    node = await a_node_without_machine(stage)
    vanished = VanishedMachines(stage.ports, stage.watch_tracker)
    await stage.pass_time(1000.0)

    await vanished.reconcile()
    stage.cloud.boxes[node.machine_id].gone_at = None
    await vanished.reconcile()
    stage.cloud.end(node.machine_id, forgotten=True)
    await vanished.reconcile()

    assert await state(stage, node) is NodeState.IDLE


@staged
async def test_a_running_node_whose_machine_vanished_is_condemned_and_reaped(stage: Stage) -> None:
    await stage.template()
    replica = await stage.replica()
    operation = await stage.succeeded(await replica.provision(1))
    (node,) = await stage.of(operation.id)
    await stage.pass_time(stage.provider.visibility_window)  # so that it is missed before it is lost
    stage.agents.of(node.id).die()
    stage.cloud.end(node.machine_id, forgotten=True)

    await stage.nothing_is_left()

    assert (await stage.node(node.id)).reason is Reason.MACHINE_GONE


@staged
async def test_a_provider_that_can_not_tell_keeps_nobody_from_judging_the_others(stage: Stage) -> None:
    node = await a_node_without_machine(stage)
    await stage.pass_time(stage.cloud.visibility_window)
    ports = replace(stage.ports, providers={"aloof": aloof(stage.clock), **stage.ports.providers})
    vanished = VanishedMachines(ports, stage.watch_tracker)

    await vanished.reconcile()
    await vanished.reconcile()
    assert await state(stage, node) is NodeState.TERMINATING


@staged
async def test_nobody_vanishes_from_a_provider_that_can_not_tell(stage: Stage) -> None:
    node = await a_node_without_machine(stage)
    await stage.pass_time(stage.cloud.visibility_window)
    vanished = VanishedMachines(stage.ports, stage.watch_tracker)
    stage.cloud.trouble = Uncertain("the region is down")
    for _ in range(3):
        await vanished.reconcile()
    assert await state(stage, node) is NodeState.IDLE
    stage.cloud.trouble = None
