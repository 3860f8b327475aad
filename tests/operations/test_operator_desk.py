"""What operators do by hand: terminate, drain, extend, pause and resume."""

from typing import Any

import pytest

from muster.domain import node as nodes
from muster.domain.errors import Conflict, InvalidRequest, NotFound, StoreUnavailable, Uncertain
from muster.domain.ids import NodeId, OperationId
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Kind, Operation, Status
from muster.domain.reasons import Reason
from muster.domain.settings import Settings
from muster.operations.operator_desk import OperatorDesk
from muster.ports.access import AccessStore
from muster.stores.cache import SETTLED, CachedAccess
from tests.harness import (
    NEVER_ATTACHES,
    NEVER_BOOTS,
    NEVER_DETACHES,
    Behaviour,
    Harness,
    Replica,
    with_harness,
)

PAUSED = "paused by an operator"
LOOKS = SETTLED / Settings().publish_every
"""At what a replica remembers, before it forgets it."""


async def why(replica: Replica, operation: Operation) -> str:
    return (await replica.ask(replica.plane.desk.why(operation.id))).waits_for


# --- terminate --------------------------------------------------------------------------------------------


async def in_state(harness: Harness, state: NodeState) -> Node:
    """A node that will stay in that state for a while; no replica works on it."""
    await harness.template(rescue_window=500.0)
    if state is NodeState.IDLE:
        (node,) = await harness.warm(1)
        return node
    replica = await harness.replica()
    match state:
        case NodeState.CREATED | NodeState.TERMINATED:
            harness.agents.usual = NEVER_BOOTS
        case NodeState.FAILED:
            harness.agents.usual = Behaviour(fails="exit 1")
            # Once what is known of its failure is collected, it is let go.
            replica.interceptor.deny["undiagnosed"] = StoreUnavailable("not now")
        case NodeState.CLAIMED:
            harness.agents.usual = NEVER_ATTACHES
            await harness.warm(1)
        case NodeState.RELEASING:
            harness.agents.usual = NEVER_DETACHES
        case NodeState.TERMINATING:
            harness.agents.usual = NEVER_BOOTS
            replica.interceptor.deny["provider.terminate"] = Uncertain("not now")
        case _:
            pass
    operation = await replica.provision(1)
    await harness.pass_time(5.0)
    if state is NodeState.RELEASING:
        await replica.release(operation.id)
        await harness.pass_time(5.0)
    if state in (NodeState.TERMINATING, NodeState.TERMINATED):
        await replica.cancel(operation.id)
        await harness.pass_time(60.0 if state is NodeState.TERMINATED else 1.0)
    replica.life.kill()
    (node,) = [each for each in await harness.nodes() if each.state is state]
    return node


@pytest.mark.parametrize("state", NodeState)
@with_harness
async def test_a_node_in_any_state_is_on_its_way_out_after_a_terminate(
    harness: Harness, state: NodeState
) -> None:
    node = await in_state(harness, state)
    desk = OperatorDesk(harness.ports)

    after = await desk.terminate(node.id)

    if state in (NodeState.TERMINATING, NodeState.TERMINATED):
        assert after == node, "it stays as it is"
    else:
        assert (after.state, after.reason) == (NodeState.TERMINATING, Reason.OPERATOR)
        assert after.version == node.version + 1
    assert await desk.terminate(node.id) == after
    assert await harness.node(node.id) == after
    await harness.replica()
    await harness.nothing_is_left()


@with_harness
async def test_a_terminated_node_fails_the_provision_that_waited_for_it(harness: Harness) -> None:
    await harness.template()
    harness.agents.usual = NEVER_BOOTS
    replica = await harness.replica()
    operation = await replica.provision(2)
    (one, _) = await harness.count(2, NodeState.CREATED)
    await replica.ask(replica.plane.operator.terminate(one.id))
    ended = await harness.ended(operation, within=60.0)
    assert ended.verdict is not None and ended.verdict.reason is Reason.OPERATOR
    await harness.nothing_is_left()


@with_harness
async def test_a_node_can_not_be_taken_out_of_a_committed_provision_before_it_runs(harness: Harness) -> None:
    await harness.template()
    replica = await harness.replica()
    refused: list[str] = []

    async def terminate() -> None:
        (node,) = await harness.nodes(NodeState.CREATED)
        with pytest.raises(Conflict, match="just committed"):
            await OperatorDesk(harness.ports).terminate(node.id)
        refused.append(node.id)

    replica.interceptor.in_steps = True
    replica.interceptor.before("apply_all", terminate)
    operation = await harness.succeeded(await replica.provision(1))
    assert refused == [member.node_id for member in operation.members]
    assert (await harness.node(operation.members[0].node_id)).state is NodeState.RUNNING


@with_harness
async def test_an_unknown_node_is_not_found(harness: Harness) -> None:
    desk = OperatorDesk(harness.ports)
    for act in (desk.terminate, desk.drain):
        with pytest.raises(NotFound):
            await act(NodeId("node-nobody"))


@with_harness
async def test_a_node_that_moves_meanwhile_is_judged_again(harness: Harness) -> None:
    await harness.template()
    replica = await harness.replica()
    operation = await harness.succeeded(await replica.provision(1))
    node_id = operation.members[0].node_id

    async def move() -> None:
        await harness.store.apply(nodes.drained(await harness.node(node_id), now=harness.now))

    replica.interceptor.before("apply", move)
    after = await replica.ask(replica.plane.operator.terminate(node_id))
    assert (after.state, after.drain) == (NodeState.TERMINATING, True)


# --- drain ------------------------------------------------------------------------------------------------


@with_harness
async def test_a_drained_idle_node_is_never_claimed_and_condemned_by_the_pool(harness: Harness) -> None:
    await harness.template()
    drained, kept = await harness.warm(2)
    await OperatorDesk(harness.ports).drain(drained.id)
    replica = await harness.replica()

    operation = await harness.succeeded(await replica.provision(1))
    assert [member.node_id for member in operation.members] == [kept.id]

    await harness.count(1, NodeState.TERMINATED)
    gone = await harness.node(drained.id)
    assert (gone.state, gone.reason) == (NodeState.TERMINATED, Reason.OPERATOR)


@with_harness
async def test_a_drained_running_node_runs_on_and_is_condemned_on_its_release(harness: Harness) -> None:
    await harness.template()
    replica = await harness.replica()
    operation = await harness.succeeded(await replica.provision(2))
    drained, kept = (member.node_id for member in operation.members)
    await replica.ask(replica.plane.operator.drain(drained))
    await harness.pass_time(60.0)
    assert (await harness.node(drained)).state is NodeState.RUNNING

    await harness.succeeded(await replica.release(operation.id))

    assert (await harness.node(kept)).state is NodeState.IDLE
    await harness.nothing_is_left(idle=1)
    assert (await harness.node(drained)).reason is Reason.OPERATOR


@with_harness
async def test_draining_twice_or_what_is_on_its_way_out_changes_nothing(harness: Harness) -> None:
    await harness.template()
    one, other = await harness.warm(2)
    desk = OperatorDesk(harness.ports)
    drained = await desk.drain(one.id)
    assert drained.drain and drained.version == one.version + 1
    assert await desk.drain(one.id) == drained
    doomed = await desk.terminate(other.id)
    assert await desk.drain(other.id) == doomed


# --- extend -----------------------------------------------------------------------------------------------


@with_harness
async def test_extending_gives_every_running_node_more_time_from_its_deadline_on(harness: Harness) -> None:
    await harness.template(max_runtime=100.0)
    replica = await harness.replica()
    operation = await harness.succeeded(await replica.provision(3))
    lost = operation.members[2].node_id
    await replica.ask(replica.plane.operator.terminate(lost))
    before = {node.id: node for node in await harness.of(operation.id)}

    extended = await replica.ask(replica.plane.operator.extend(operation.id, 50.0))

    assert {node.id for node in extended} == set(before) - {lost}
    for node in extended:
        was = before[node.id].deadline_at
        assert was is not None
        assert (node.deadline_at, node.deadline_source) == (was + 50.0, "operator")
    await harness.pass_time(130.0)
    assert len(await harness.nodes(NodeState.RUNNING)) == 2
    await harness.nothing_is_left()


@pytest.mark.parametrize("seconds", [0.0, -5.0, float("nan"), float("inf"), True, "60"])
@with_harness
async def test_extending_by_no_time_is_refused(harness: Harness, seconds: Any) -> None:
    await harness.template()
    replica = await harness.replica()
    operation = await harness.succeeded(await replica.provision(1))
    (node,) = await harness.nodes(NodeState.RUNNING)
    with pytest.raises(InvalidRequest, match="by"):
        await replica.ask(replica.plane.operator.extend(operation.id, seconds))
    assert await harness.node(node.id) == node


@with_harness
async def test_only_a_provision_with_running_nodes_can_be_extended(harness: Harness) -> None:
    await harness.template()
    replica = await harness.replica()
    harness.agents.script(Behaviour(boot=50.0))
    booting = await replica.provision(1)
    await harness.pass_time(5.0)
    with pytest.raises(InvalidRequest, match="no running nodes"):
        await replica.ask(replica.plane.operator.extend(booting.id, 60.0))
    operation = await harness.succeeded(booting)
    release = await harness.succeeded(await replica.release(operation.id))
    with pytest.raises(InvalidRequest, match="no running nodes"):
        await replica.ask(replica.plane.operator.extend(operation.id, 60.0))
    with pytest.raises(InvalidRequest, match="must be a provision"):
        await replica.ask(replica.plane.operator.extend(release.id, 60.0))
    with pytest.raises(NotFound):
        await replica.ask(replica.plane.operator.extend(OperationId("op-nobody"), 60.0))


@with_harness
async def test_a_node_past_its_deadline_gets_no_more_time(harness: Harness) -> None:
    await harness.template(max_runtime=100.0)
    replica = await harness.replica()
    operation = await harness.succeeded(await replica.provision(1))
    replica.life.kill()  # so that no sweep has judged it yet
    await harness.pass_time(100.0)
    (node,) = await harness.nodes(NodeState.RUNNING)
    assert node.deadline_at is not None and node.deadline_at <= harness.now
    with pytest.raises(InvalidRequest, match="no running nodes"):
        await OperatorDesk(harness.ports).extend(operation.id, 600.0)
    assert await harness.node(node.id) == node


# --- pause ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("template", ["ci", None])
@with_harness
async def test_a_pause_holds_provisions_and_a_resume_lets_them_go(
    harness: Harness, template: str | None
) -> None:
    await harness.template()
    warm = await harness.warm(1)
    replica = await harness.replica()
    await replica.ask(replica.plane.operator.pause(template))

    operation = await replica.provision(2)
    await harness.pass_time(62.0)  # between two looks

    assert not (await harness.operation(operation.id)).ended
    assert len(harness.cloud.boxes) == 1
    assert (await harness.node(warm[0].id)).state is NodeState.IDLE

    await replica.ask(replica.plane.operator.resume(template))
    began = harness.now
    await harness.succeeded(operation)
    assert harness.now - began < 1.0, "it was woken"


@with_harness
async def test_a_paused_provision_says_so_wherever_it_is_asked(harness: Harness) -> None:
    await harness.template()
    replica = await harness.replica()
    await replica.ask(replica.plane.operator.pause("ci"))
    operation = await replica.provision(2)
    run = await replica.run(1, run="run-2")
    assert await why(replica, operation) == f"{PAUSED}: waiting for 2 of 2 nodes"
    await harness.pass_time(2.0)

    shown = (await harness.operation(operation.id)).progress
    assert shown is not None and shown.message == f"{PAUSED}: waiting for 2 of 2 nodes"
    await harness.pass_time(10.0)
    assert await why(replica, run) == f"{PAUSED}: waiting for 1 of 1 node"

    await replica.ask(replica.plane.operator.resume("ci"))
    for each in (operation, run):
        ended = await harness.succeeded(each)
        assert PAUSED not in await why(replica, ended)


@with_harness
async def test_a_pause_of_one_template_holds_no_other(harness: Harness) -> None:
    await harness.template()
    await harness.template("web")
    replica = await harness.replica()
    await replica.ask(replica.plane.operator.pause("web"))
    await harness.succeeded(await replica.provision(1))
    held = await replica.provision(1, template="web", run="run-2")
    await harness.pass_time(30.0)
    assert not (await harness.operation(held.id)).ended
    await replica.cancel(held.id)
    assert (await harness.ended(held)).status is Status.CANCELLED


@with_harness
async def test_what_is_under_way_goes_on_in_spite_of_a_pause(harness: Harness) -> None:
    await harness.template()
    harness.agents.usual = Behaviour(boot=60.0)
    replica = await harness.replica()
    operation = await replica.provision(2)
    await harness.count(2, NodeState.CREATED)
    await replica.ask(replica.plane.operator.pause(None))
    assert PAUSED not in await why(replica, operation)
    await harness.succeeded(operation)
    await harness.succeeded(await replica.release(operation.id))


def _forgetting_late(harness: Harness) -> AccessStore:
    """What a replica knows of pauses on a shared store, if no other tells it of one."""
    return CachedAccess(harness.store.access, harness.clock, alone=False).as_access()


@pytest.mark.parametrize("verb", ["claim", "reserve"])
@with_harness
async def test_a_pause_after_the_last_look_holds_a_provision_back(harness: Harness, verb: str) -> None:
    await harness.template()
    warm = await harness.warm(1) if verb == "claim" else []
    replica = await harness.replica(access=_forgetting_late(harness))

    async def pause() -> None:
        await OperatorDesk(harness.ports).pause("ci")

    replica.interceptor.before(verb, pause)
    replica.interceptor.armed = True
    operation = await replica.provision(1)
    await harness.pass_time(30.0)
    assert replica.interceptor.calls.count(verb) <= LOOKS, "it waits between two looks"
    shown = await harness.operation(operation.id)
    assert shown.progress is not None and shown.progress.message == f"{PAUSED}: waiting for 1 of 1 node"
    assert await harness.nodes() == warm and await harness.launches(operation.id) == ()
    await replica.ask(replica.plane.operator.resume("ci"))
    await harness.succeeded(operation)


@with_harness
async def test_a_pause_after_the_last_look_holds_a_refill_back(harness: Harness) -> None:
    await harness.template(min_idle=1)
    replica = await harness.replica(access=_forgetting_late(harness))

    async def pause() -> None:
        await OperatorDesk(harness.ports).pause("ci")

    replica.interceptor.before("reserve", pause)
    replica.interceptor.armed = True
    await harness.pass_time(30.0)
    assert replica.interceptor.calls.count("reserve") <= LOOKS, "it waits between two looks"
    (refill,) = await harness.of_kind(Kind.REFILL)
    assert refill.progress is not None and refill.progress.message == PAUSED
    assert harness.cloud.boxes == {} and await harness.launches(refill.id) == ()
    await replica.ask(replica.plane.operator.resume("ci"))
    await harness.count(1, NodeState.IDLE, within=60.0)


@with_harness
async def test_the_deadline_ends_a_paused_provision(harness: Harness) -> None:
    await harness.template()
    replica = await harness.replica()
    await replica.ask(replica.plane.operator.pause("ci"))
    operation = await harness.ended(await replica.provision(1, timeout=40.0))
    assert operation.status is Status.FAILED
    assert operation.verdict is not None
    assert operation.verdict.reason is Reason.DEADLINE_EXCEEDED
    assert PAUSED in operation.verdict.message
    assert operation.ended_at is not None
    assert 40.0 <= operation.ended_at - operation.created_at < 41.0
    assert harness.cloud.boxes == {}


@with_harness
async def test_a_replacement_is_held_too_and_what_is_held_already_is_kept(harness: Harness) -> None:
    await harness.template(replacements=1)
    harness.agents.script(Behaviour(), Behaviour(boot=10.0, fails="exit 1"))
    replica = await harness.replica()
    operation = await replica.provision(2)
    await harness.pass_time(5.0)
    await replica.ask(replica.plane.operator.pause("ci"))
    await harness.pass_time(60.0)
    assert await why(replica, operation) == f"{PAUSED}: waiting for 1 of 2 nodes"
    assert len(harness.cloud.boxes) == 2
    await replica.ask(replica.plane.operator.resume("ci"))
    await harness.succeeded(operation)


@with_harness
async def test_a_pause_holds_refills_and_a_resume_lets_them_go(harness: Harness) -> None:
    await harness.template(min_idle=2)
    await OperatorDesk(harness.ports).pause("ci")
    replica = await harness.replica()
    await harness.pass_time(60.0)
    assert await harness.of_kind(Kind.REFILL) == []
    await replica.ask(replica.plane.operator.resume("ci"))
    await harness.count(2, NodeState.IDLE, within=30.0)


@with_harness
async def test_a_refill_that_was_accepted_before_the_pause_launches_nothing(harness: Harness) -> None:
    await harness.template(min_idle=2)
    replica = await harness.replica()

    async def pause() -> None:
        await OperatorDesk(harness.ports).pause(None)

    replica.interceptor.before("submit", pause)
    await harness.pass_time(60.0)
    (refill,) = await harness.of_kind(Kind.REFILL)
    assert not refill.ended
    assert refill.progress is not None and refill.progress.message == PAUSED
    assert harness.cloud.boxes == {}
    await replica.ask(replica.plane.operator.resume(None))
    await harness.count(2, NodeState.IDLE, within=30.0)


@with_harness
async def test_a_refill_that_stays_paused_ends_at_its_deadline(harness: Harness) -> None:
    await harness.template(min_idle=1)
    replica = await harness.replica()

    async def pause() -> None:
        await OperatorDesk(harness.ports).pause(None)

    replica.interceptor.before("submit", pause)
    await harness.pass_time(30.0)
    (refill,) = await harness.of_kind(Kind.REFILL)
    ended = await harness.ended(refill)
    assert ended.verdict is not None and ended.verdict.reason is Reason.DEADLINE_EXCEEDED
    assert harness.cloud.boxes == {}


@with_harness
async def test_only_a_known_template_can_be_paused(harness: Harness) -> None:
    desk = OperatorDesk(harness.ports)
    for name in ("nobody", ""):
        with pytest.raises(NotFound):
            await desk.pause(name)
        with pytest.raises(NotFound):
            await desk.resume(name)
    assert list(await harness.store.access.pauses()) == []
