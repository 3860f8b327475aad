from dataclasses import replace

from muster.controllers.vanished_machines import VanishedMachines
from muster.domain.errors import Uncertain
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.reasons import Reason
from tests.harness import Harness, with_harness
from tests.harness.cloud import aloof


async def a_node_without_machine(harness: Harness, *, forgotten: bool = True) -> Node:
    """Its machine is gone, its agent too, and the provider may not even know of it any more."""
    await harness.template(idle_timeout=5000.0)
    (node,) = await harness.warm(1)
    harness.agents.of(node.id).die()
    harness.cloud.end(node.machine_id, forgotten=forgotten)
    return node


async def state(harness: Harness, node: Node) -> NodeState:
    return (await harness.node(node.id)).state


@with_harness
async def test_a_machine_that_is_missing_twice_past_the_window_has_vanished(harness: Harness) -> None:
    node = await a_node_without_machine(harness)
    vanished = VanishedMachines(harness.ports, harness.watch_tracker)
    await harness.pass_time(harness.cloud.visibility_window)

    await vanished.reconcile()
    assert await state(harness, node) is NodeState.IDLE
    await vanished.reconcile()

    gone = await harness.node(node.id)
    assert (gone.state, gone.reason) == (NodeState.TERMINATING, Reason.MACHINE_GONE)
    assert gone.detail.endswith(f"no longer lists machine {node.machine_id}")


@with_harness
async def test_a_machine_that_the_provider_calls_gone_is_believed_at_the_first_look(harness: Harness) -> None:
    node = await a_node_without_machine(harness, forgotten=False)
    harness.cloud.boxes[node.machine_id].why = "taken back"
    await VanishedMachines(harness.ports, harness.watch_tracker).reconcile()

    gone = await harness.node(node.id)
    assert (gone.state, gone.reason) == (NodeState.TERMINATING, Reason.MACHINE_GONE)
    assert gone.detail == f"machine {node.machine_id} of cloud has ended: taken back"


@with_harness
async def test_a_machine_that_stops_without_our_asking_is_believed_though_it_is_listed(
    harness: Harness,
) -> None:
    await harness.template(idle_timeout=5000.0)
    (node,) = await harness.warm(1)
    box = harness.cloud.boxes[node.machine_id]
    box.stopping_at, box.gone_at = harness.now, harness.now + 1000.0
    await VanishedMachines(harness.ports, harness.watch_tracker).reconcile()
    assert await state(harness, node) is NodeState.TERMINATING


@with_harness
async def test_a_node_whose_machine_was_taken_back_is_told_so(harness: Harness) -> None:
    node = await a_node_without_machine(harness, forgotten=False)
    harness.cloud.boxes[node.machine_id].reason = Reason.INTERRUPTED
    await VanishedMachines(harness.ports, harness.watch_tracker).reconcile()
    assert (await harness.node(node.id)).reason is Reason.INTERRUPTED


@with_harness
async def test_inside_the_window_a_missing_machine_proves_nothing(harness: Harness) -> None:
    node = await a_node_without_machine(harness)
    vanished = VanishedMachines(harness.ports, harness.watch_tracker)
    await harness.pass_time(node.created_at + harness.cloud.visibility_window - harness.now - 1.0)

    await vanished.reconcile()
    await vanished.reconcile()
    await vanished.reconcile()
    assert await state(harness, node) is NodeState.IDLE
    await harness.pass_time(1.0)
    await vanished.reconcile()
    assert await state(harness, node) is NodeState.IDLE  # the first time that counts


@with_harness
async def test_a_fresh_beat_saves_a_node_whatever_the_provider_says(harness: Harness) -> None:
    await harness.template(idle_timeout=5000.0)
    (node,) = await harness.warm(1)
    harness.cloud.boxes[node.machine_id].visible_at = harness.now + 4000.0
    vanished = VanishedMachines(harness.ports, harness.watch_tracker)
    await harness.pass_time(1000.0)

    for _ in range(3):
        await vanished.reconcile()
        await harness.pass_time(60.0)
    assert await state(harness, node) is NodeState.IDLE

    harness.agents.of(node.id).silence()
    await harness.pass_time(harness.settings.limits.stale_after + 6.0)
    await vanished.reconcile()
    await vanished.reconcile()
    assert await state(harness, node) is NodeState.TERMINATING


@with_harness
async def test_a_machine_that_is_listed_again_in_between_starts_anew(harness: Harness) -> None:
    node = await a_node_without_machine(harness)
    vanished = VanishedMachines(harness.ports, harness.watch_tracker)
    await harness.pass_time(1000.0)

    await vanished.reconcile()
    harness.cloud.boxes[node.machine_id].gone_at = None
    await vanished.reconcile()
    harness.cloud.end(node.machine_id, forgotten=True)
    await vanished.reconcile()

    assert await state(harness, node) is NodeState.IDLE


@with_harness
async def test_a_running_node_whose_machine_vanished_is_condemned_and_reaped(harness: Harness) -> None:
    await harness.template()
    replica = await harness.replica()
    operation = await harness.succeeded(await replica.provision(1))
    (node,) = await harness.of(operation.id)
    await harness.pass_time(harness.provider.visibility_window)  # so that it is missed before it is lost
    harness.agents.of(node.id).die()
    harness.cloud.end(node.machine_id, forgotten=True)

    await harness.nothing_is_left()

    assert (await harness.node(node.id)).reason is Reason.MACHINE_GONE


@with_harness
async def test_a_provider_that_can_not_tell_does_not_stop_the_judging_of_the_others(harness: Harness) -> None:
    node = await a_node_without_machine(harness)
    await harness.pass_time(harness.cloud.visibility_window)
    ports = replace(harness.ports, providers={"aloof": aloof(harness.clock), **harness.ports.providers})
    vanished = VanishedMachines(ports, harness.watch_tracker)

    await vanished.reconcile()
    await vanished.reconcile()
    assert await state(harness, node) is NodeState.TERMINATING


@with_harness
async def test_no_machine_vanishes_from_a_provider_that_can_not_tell(harness: Harness) -> None:
    node = await a_node_without_machine(harness)
    await harness.pass_time(harness.cloud.visibility_window)
    vanished = VanishedMachines(harness.ports, harness.watch_tracker)
    harness.cloud.trouble = Uncertain("the region is down")
    for _ in range(3):
        await vanished.reconcile()
    assert await state(harness, node) is NodeState.IDLE
    harness.cloud.trouble = None
