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
from tests.harness import (
    NEVER_ATTACHES,
    NEVER_BOOTS,
    NEVER_DETACHES,
    Behaviour,
    Harness,
    Replica,
    with_harness,
)
from tests.harness.interceptor import CallInterceptor, watched_store


class AllAlong(WatchTracker):
    """A replica watched all the time, although none is left to say so."""

    async def look(self) -> Watch:
        return Watch(since=0.0)


def sweeping(harness: Harness, ports: Ports | None = None) -> DeadlineSweep:
    watch_tracker = AllAlong(harness.store, harness.ports.clock, harness.settings.limits)
    return DeadlineSweep(ports or harness.ports, harness.settings, watch_tracker)


State = Callable[[Harness], Awaitable[Node]]


async def only(harness: Harness, state: NodeState) -> Node:
    """The one node in the state; then no replica moves any more."""
    (node,) = await harness.count(1, state)
    return node


async def provisioned(harness: Harness, *manners: Behaviour, count: int = 1) -> tuple[Replica, Operation]:
    harness.agents.script(*manners)
    replica = await harness.replica()
    return replica, await replica.provision(count)


async def idle(harness: Harness) -> Node:
    (node,) = await harness.warm(1)
    return node


async def booting(harness: Harness) -> Node:
    replica, _ = await provisioned(harness, NEVER_BOOTS)
    await harness.joined(1)
    node = await only(harness, NodeState.CREATED)
    replica.life.kill()
    return node


async def attaching(harness: Harness) -> Node:
    replica, _ = await provisioned(harness, NEVER_ATTACHES)

    async def up() -> bool:
        return [node.up for node in await harness.nodes()] == [True]

    await harness.until(up)
    replica.life.kill()
    return await only(harness, NodeState.CREATED)


async def claimed(harness: Harness) -> Node:
    harness.agents.script(NEVER_ATTACHES)
    await harness.warm(1)
    replica, _ = await provisioned(harness)
    node = await only(harness, NodeState.CLAIMED)
    replica.life.kill()
    return node


async def running(harness: Harness) -> Node:
    replica, operation = await provisioned(harness)
    await harness.succeeded(operation)
    replica.life.kill()
    return await only(harness, NodeState.RUNNING)


async def releasing(harness: Harness) -> Node:
    replica, operation = await provisioned(harness, NEVER_DETACHES)
    await replica.release((await harness.succeeded(operation)).id)
    node = await only(harness, NodeState.RELEASING)
    replica.life.kill()
    return node


async def failed(harness: Harness) -> Node:
    replica, operation = await provisioned(harness, Behaviour(fails="exit 1"))
    await harness.ended(operation)
    replica.life.kill()
    return await only(harness, NodeState.FAILED)


LIMITS = [
    (idle, 400.0, NodeState.TERMINATING, Reason.IDLE_TIMEOUT),
    (booting, 500.0, NodeState.FAILED, Reason.BOOT_TIMEOUT),
    (attaching, ATTACH_TIMEOUTS[Runtime.EXEC], NodeState.TERMINATING, Reason.ATTACH_FAILED),
    (claimed, ATTACH_TIMEOUTS[Runtime.EXEC], NodeState.TERMINATING, Reason.ATTACH_FAILED),
    (running, 600.0, NodeState.TERMINATING, Reason.MAX_RUNTIME),
    (releasing, 120.0, NodeState.TERMINATING, Reason.RELEASE_TIMEOUT),
    (failed, COLLECTING, NodeState.TERMINATING, Reason.BOOT_SCRIPT_FAILED),
]


async def in_state(harness: Harness, state: State) -> Node:
    await harness.template(
        idle_timeout=400.0,
        provision_timeout=500.0,
        stall_after=1000.0,
        max_runtime=600.0,
        rescue_window=200.0,
        max_nodes=1,
    )
    return await state(harness)


@pytest.mark.parametrize(("state", "limit", "target", "reason"), LIMITS)
@with_harness
async def test_a_node_is_judged_at_its_limit_and_not_before(
    harness: Harness, state: State, limit: float, target: NodeState, reason: Reason
) -> None:
    node = await in_state(harness, state)
    since = node.booted_at if state is attaching else node.entered_at
    assert since is not None
    assert node.deadline_at == since + limit
    sweep = sweeping(harness)

    await harness.pass_time(since + limit - harness.now - 0.5)
    await sweep.reconcile()
    assert await harness.node(node.id) == node

    await harness.pass_time(0.5)
    await sweep.reconcile()
    judged = await harness.node(node.id)
    assert (judged.state, judged.reason) == (target, reason)
    await sweep.reconcile()
    last = [event for event in await harness.events(node.id) if event.version == judged.version]
    assert len(last) == 1
    assert f"in {node.state}" in last[0].detail
    assert (await harness.node(node.id)).version == judged.version


@pytest.mark.parametrize("state", [state for state, *_ in LIMITS])
@with_harness
async def test_losing_the_race_for_a_node_makes_no_event(harness: Harness, state: State) -> None:
    node = await in_state(harness, state)
    assert node.deadline_at is not None
    interceptor = CallInterceptor()
    sweep = sweeping(harness, replace(harness.ports, store=watched_store(harness.store, interceptor)))
    await harness.pass_time(node.deadline_at - harness.now + 1.0)
    moved = nodes.extend(node, now=harness.now, deadline_at=harness.now + 100.0, source="operator")

    async def another_write_is_quicker() -> None:
        await harness.store.apply(moved)

    interceptor.before("apply", another_write_is_quicker)
    await sweep.reconcile()

    assert await harness.node(node.id) == moved.after
    assert [event.name for event in await harness.events(node.id)][-1] == "extend"


@with_harness
async def test_an_attached_nodes_time_is_its_operations_read_when_it_is_judged(harness: Harness) -> None:
    await harness.template(provision_timeout=1000.0)
    await harness.warm(1)
    replica, operation = await provisioned(harness, NEVER_BOOTS, count=2)
    await harness.pass_time(5.0)
    replica.life.kill()
    (node,) = await harness.nodes(NodeState.CLAIMED)
    assert node.attached
    limit = operation.deadline_at + harness.settings.limits.after_operation
    assert node.deadline_at == limit
    sweep = sweeping(harness)

    await harness.pass_time(limit - harness.now - 0.5)
    await sweep.reconcile()
    assert (await harness.node(node.id)).state is NodeState.CLAIMED
    await harness.pass_time(0.5)
    await sweep.reconcile()

    judged = await harness.node(node.id)
    assert (judged.state, judged.reason) == (NodeState.TERMINATING, Reason.DEADLINE_EXCEEDED)


@with_harness
async def test_the_nodes_of_a_committed_operation_are_not_judged_before_they_run(harness: Harness) -> None:
    await harness.template()
    await harness.warm(1)
    replica = await harness.replica()
    replica.interceptor.in_steps = True
    replica.interceptor.before("apply_all", replica.life.die)
    operation = await replica.provision(1)
    await harness.pass_time(2.0)
    assert not replica.life.alive
    assert (await harness.operation(operation.id)).committed
    (node,) = await harness.nodes(NodeState.CLAIMED)
    await harness.pass_time(5000.0)

    await sweeping(harness).reconcile()
    assert await harness.node(node.id) == node

    await harness.replica()
    operation = await harness.succeeded(operation)
    assert operation.committed_at is not None
    (late,) = await harness.of(operation.id)
    assert late.deadline_at == operation.committed_at + 1800.0  # from the commit, not from the hand-over


@with_harness
async def test_a_sweep_that_stands_still_in_the_middle_judges_no_node_for_that_time(harness: Harness) -> None:
    node = await in_state(harness, idle)
    watch_tracker = WatchTracker(harness.store, harness.ports.clock, harness.settings.limits)
    await watch_tracker.look()
    assert node.deadline_at is not None
    await harness.pass_time(node.deadline_at - harness.now + 1.0)
    interceptor = CallInterceptor()
    ports = replace(harness.ports, store=watched_store(harness.store, interceptor))
    sweep = DeadlineSweep(ports, harness.settings, watch_tracker)

    async def it_stands_still() -> None:
        await harness.pass_time(harness.settings.limits.return_grace + 1.0)

    interceptor.before("template", it_stands_still)
    await sweep.reconcile()
    assert (await harness.node(node.id)).state is NodeState.IDLE
    await sweep.reconcile()
    assert (await harness.node(node.id)).state is NodeState.IDLE
    for _ in range(7):
        await harness.pass_time(10.0)
        await sweep.reconcile()
    assert (await harness.node(node.id)).state is NodeState.TERMINATING
