"""The only judge of a node's time: rows on both sides of every limit, derived from the limit."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from muster.controllers.deadlines import DeadlineSweep
from muster.domain import node as nodes
from muster.domain.deadlines import ATTACH_TIMEOUTS, COLLECTING, Watch
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Operation
from muster.domain.reasons import Reason
from muster.domain.template import Runtime
from muster.operations.watch import WatchTracker
from muster.ports.bundle import Ports
from tests.stage import NEVER_ATTACHES, NEVER_BOOTS, NEVER_DETACHES, Manner, Replica, Stage, staged
from tests.stage.ambush import Ambush, watched_store


class AllAlong(WatchTracker):
    """Somebody watched all the time, although no replica is left to say so."""

    async def look(self) -> Watch:
        return Watch(since=0.0)


def sweeping(stage: Stage, ports: Ports | None = None) -> DeadlineSweep:
    watch_tracker = AllAlong(stage.store, stage.ports.clock, stage.settings.limits)
    return DeadlineSweep(ports or stage.ports, stage.settings, watch_tracker)


State = Callable[[Stage], Awaitable[Node]]


async def only(stage: Stage, state: NodeState) -> Node:
    """The one node in the state; then no replica moves any more."""
    (node,) = await stage.count(1, state)
    return node


async def provisioned(stage: Stage, *manners: Manner, count: int = 1) -> tuple[Replica, Operation]:
    stage.agents.script(*manners)
    replica = await stage.replica()
    return replica, await replica.provision(count)


async def idle(stage: Stage) -> Node:
    (node,) = await stage.warm(1)
    return node


async def booting(stage: Stage) -> Node:
    replica, _ = await provisioned(stage, NEVER_BOOTS)
    await stage.joined(1)
    node = await only(stage, NodeState.CREATED)
    replica.life.kill()
    return node


async def attaching(stage: Stage) -> Node:
    replica, _ = await provisioned(stage, NEVER_ATTACHES)

    async def up() -> bool:
        return [node.up for node in await stage.nodes()] == [True]

    await stage.until(up)
    replica.life.kill()
    return await only(stage, NodeState.CREATED)


async def claimed(stage: Stage) -> Node:
    stage.agents.script(NEVER_ATTACHES)
    await stage.warm(1)
    replica, _ = await provisioned(stage)
    node = await only(stage, NodeState.CLAIMED)
    replica.life.kill()
    return node


async def running(stage: Stage) -> Node:
    replica, operation = await provisioned(stage)
    await stage.succeeded(operation)
    replica.life.kill()
    return await only(stage, NodeState.RUNNING)


async def releasing(stage: Stage) -> Node:
    replica, operation = await provisioned(stage, NEVER_DETACHES)
    await replica.release((await stage.succeeded(operation)).id)
    node = await only(stage, NodeState.RELEASING)
    replica.life.kill()
    return node


async def failed(stage: Stage) -> Node:
    replica, operation = await provisioned(stage, Manner(fails="exit 1"))
    await stage.ended(operation)
    replica.life.kill()
    return await only(stage, NodeState.FAILED)


LIMITS = [
    (idle, 400.0, NodeState.TERMINATING, Reason.IDLE_TIMEOUT),
    (booting, 500.0, NodeState.FAILED, Reason.BOOT_TIMEOUT),
    (attaching, ATTACH_TIMEOUTS[Runtime.EXEC], NodeState.TERMINATING, Reason.ATTACH_FAILED),
    (claimed, ATTACH_TIMEOUTS[Runtime.EXEC], NodeState.TERMINATING, Reason.ATTACH_FAILED),
    (running, 600.0, NodeState.TERMINATING, Reason.MAX_RUNTIME),
    (releasing, 120.0, NodeState.TERMINATING, Reason.RELEASE_TIMEOUT),
    (failed, COLLECTING, NodeState.TERMINATING, Reason.BOOT_SCRIPT_FAILED),
]


async def in_state(stage: Stage, state: State) -> Node:
    await stage.template(
        idle_timeout=400.0,
        provision_timeout=500.0,
        stall_after=1000.0,
        max_runtime=600.0,
        rescue_window=200.0,
        max_nodes=1,
    )
    return await state(stage)


@pytest.mark.parametrize(("state", "limit", "target", "reason"), LIMITS)
@staged
async def test_a_node_is_judged_at_its_limit_and_not_before(
    stage: Stage, state: State, limit: float, target: NodeState, reason: Reason
) -> None:
    node = await in_state(stage, state)
    since = node.booted_at if state is attaching else node.entered_at
    assert since is not None
    assert node.deadline_at == since + limit
    sweep = sweeping(stage)

    await stage.pass_time(since + limit - stage.now - 0.5)
    await sweep.reconcile()
    assert await stage.node(node.id) == node

    await stage.pass_time(0.5)
    await sweep.reconcile()
    judged = await stage.node(node.id)
    assert (judged.state, judged.reason) == (target, reason)
    await sweep.reconcile()
    last = [event for event in await stage.events(node.id) if event.version == judged.version]
    assert len(last) == 1
    assert f"in {node.state}" in last[0].detail
    assert (await stage.node(node.id)).version == judged.version


@pytest.mark.parametrize("state", [state for state, *_ in LIMITS])
@staged
async def test_losing_the_race_for_a_node_makes_no_event(stage: Stage, state: State) -> None:
    node = await in_state(stage, state)
    assert node.deadline_at is not None
    ambush = Ambush()
    sweep = sweeping(stage, replace(stage.ports, store=watched_store(stage.store, ambush)))
    await stage.pass_time(node.deadline_at - stage.now + 1.0)
    moved = nodes.extend(node, now=stage.now, deadline_at=stage.now + 100.0, source="operator")

    async def somebody_is_quicker() -> None:
        await stage.store.apply(moved)

    ambush.before("apply", somebody_is_quicker)
    await sweep.reconcile()

    assert await stage.node(node.id) == moved.after
    assert [event.name for event in await stage.events(node.id)][-1] == "extend"


@staged
async def test_an_attached_nodes_time_is_its_operations_read_when_it_is_judged(stage: Stage) -> None:
    await stage.template(provision_timeout=1000.0)
    await stage.warm(1)
    replica, operation = await provisioned(stage, NEVER_BOOTS, count=2)
    await stage.pass_time(5.0)
    replica.life.kill()
    (node,) = await stage.nodes(NodeState.CLAIMED)
    assert node.attached
    limit = operation.deadline_at + stage.settings.limits.after_operation
    assert node.deadline_at == limit
    sweep = sweeping(stage)

    await stage.pass_time(limit - stage.now - 0.5)
    await sweep.reconcile()
    assert (await stage.node(node.id)).state is NodeState.CLAIMED
    await stage.pass_time(0.5)
    await sweep.reconcile()

    judged = await stage.node(node.id)
    assert (judged.state, judged.reason) == (NodeState.TERMINATING, Reason.DEADLINE_EXCEEDED)


@staged
async def test_nobody_judges_the_nodes_of_a_committed_operation_before_they_run(stage: Stage) -> None:
    await stage.template()
    await stage.warm(1)
    replica = await stage.replica()
    replica.ambush.before("apply_all", replica.life.die)
    operation = await replica.provision(1)
    await stage.pass_time(2.0)
    assert not replica.life.alive
    assert (await stage.operation(operation.id)).committed
    (node,) = await stage.nodes(NodeState.CLAIMED)
    await stage.pass_time(5000.0)

    await sweeping(stage).reconcile()
    assert await stage.node(node.id) == node

    await stage.replica()
    operation = await stage.succeeded(operation)
    assert operation.committed_at is not None
    (late,) = await stage.of(operation.id)
    assert late.deadline_at == operation.committed_at + 1800.0  # from the commit, not from the hand-over


@staged
async def test_a_sweep_that_stands_still_in_the_middle_judges_nobody_for_that_time(stage: Stage) -> None:
    node = await in_state(stage, idle)
    watch_tracker = WatchTracker(stage.store, stage.ports.clock, stage.settings.limits)
    await watch_tracker.look()
    assert node.deadline_at is not None
    await stage.pass_time(node.deadline_at - stage.now + 1.0)
    ambush = Ambush()
    ports = replace(stage.ports, store=watched_store(stage.store, ambush))
    sweep = DeadlineSweep(ports, stage.settings, watch_tracker)

    async def it_stands_still() -> None:
        await stage.pass_time(stage.settings.limits.return_grace + 1.0)

    ambush.before("template", it_stands_still)
    await sweep.reconcile()
    assert (await stage.node(node.id)).state is NodeState.IDLE
    await sweep.reconcile()
    assert (await stage.node(node.id)).state is NodeState.IDLE
    for _ in range(7):
        await stage.pass_time(10.0)
        await sweep.reconcile()
    assert (await stage.node(node.id)).state is NodeState.TERMINATING
