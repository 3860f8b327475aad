"""Commands on the nodes of a provision, as callers ask for them."""

import re
from typing import Any

import pytest

from muster.domain.command import Command, CommandState, Execution, Variable
from muster.domain.errors import Gone, IdempotencyMismatch, InvalidRequest, NotFound
from muster.domain.ids import CommandId, OperationId
from muster.domain.lifecycle import NodeState
from muster.domain.node import condemn
from muster.domain.operation import Operation
from muster.domain.reasons import Reason
from tests.harness import NEVER_BOOTS, Behaviour, Harness, Replica, with_harness

MAKE = Execution(argv=("make",))
OTHER = Execution(argv=("make", "clean"))
ENDLESS = Behaviour(works=None)


async def execute(
    replica: Replica, operation: Operation, execution: Execution = MAKE, **more: Any
) -> list[Command]:
    return list(await replica.ask(replica.plane.command_desk.execute(operation.id, execution, **more)))


async def provisioned(
    harness: Harness, count: int = 2, manner: Behaviour = ENDLESS
) -> tuple[Replica, Operation]:
    await harness.template()
    harness.agents.usual = manner
    replica = await harness.replica()
    return replica, await harness.succeeded(await replica.provision(count))


async def all_ended(harness: Harness) -> None:
    async def ended() -> bool:
        return all(command.ended for command in await harness.commands())

    await harness.until(ended, within=60.0)


@with_harness
async def test_a_command_is_started_on_every_node_in_the_order_of_the_members(harness: Harness) -> None:
    replica, operation = await provisioned(harness, 3, Behaviour(works=1.0, exit_code=4))
    made = await execute(replica, operation)
    assert [(each.ordinal, each.count, each.run) for each in made] == [(n, 3, "run-1") for n in range(3)]
    assert [each.node_id for each in made] == [member.node_id for member in operation.members]
    await all_ended(harness)
    assert [each.exit_code for each in await harness.commands()] == [4, 4, 4]
    assert len(await harness.nodes(NodeState.RUNNING)) == 3, "a command's end does not give the node back"


@with_harness
async def test_asking_twice_without_a_key_executes_twice(harness: Harness) -> None:
    replica, operation = await provisioned(harness)
    first, second = await execute(replica, operation), await execute(replica, operation)
    assert len({each.id for each in (*first, *second)}) == 4


@with_harness
async def test_the_same_key_gives_the_same_commands_on_any_replica(harness: Harness) -> None:
    replica, operation = await provisioned(harness)
    other = await harness.replica()
    first = await execute(replica, operation, key="key-1")
    again = await execute(other, operation, key="key-1")
    assert [each.id for each in again] == [each.id for each in first]
    assert len(await harness.commands()) == 2
    assert {each.id for each in await execute(replica, operation, key="key-2")}.isdisjoint(
        each.id for each in first
    )


@with_harness
async def test_the_same_key_gives_the_same_commands_after_the_release_too(harness: Harness) -> None:
    replica, operation = await provisioned(harness, manner=Behaviour())
    first = await execute(replica, operation, key="key-1")
    await all_ended(harness)
    await harness.succeeded(await replica.release(operation.id))
    again = await execute(replica, operation, key="key-1")
    assert [each.id for each in again] == [each.id for each in first]
    assert all(each.state is CommandState.EXITED for each in again)


@with_harness
async def test_a_key_that_was_used_for_something_else_is_refused(harness: Harness) -> None:
    replica, operation = await provisioned(harness)
    elsewhere = await harness.succeeded(await replica.provision(3, run="run-2"))
    await execute(replica, operation, key="key-1")
    with pytest.raises(IdempotencyMismatch):
        await execute(replica, operation, OTHER, key="key-1")
    with pytest.raises(IdempotencyMismatch):
        await execute(replica, elsewhere, key="key-1")
    for node in await harness.nodes(NodeState.RUNNING):
        assert node.assignment_id is not None
        for command in await harness.store.commands.unfinished(node.assignment_id):
            assert command.node_id == node.id and command.execution == MAKE


@pytest.mark.parametrize("key", ["a/b", "../../etc", ".x", "ü €", "x" * 128, "{run}"])
@with_harness
async def test_whatever_a_key_looks_like_a_commands_id_is_a_plain_name(harness: Harness, key: str) -> None:
    replica, operation = await provisioned(harness, 1)
    (made,) = await execute(replica, operation, key=key.replace("{run}", operation.id))
    assert re.fullmatch(r"cmd-[0-9a-f]{32}\.0", made.id)


@pytest.mark.parametrize("key", ["", " x", "a\nb", "x" * 129])
@with_harness
async def test_a_key_that_is_no_key_is_refused(harness: Harness, key: str) -> None:
    replica, operation = await provisioned(harness, 1)
    with pytest.raises(InvalidRequest, match="idempotency_key"):
        await execute(replica, operation, key=key)
    assert await harness.commands() == []


@with_harness
async def test_nodes_that_were_given_back_take_no_command(harness: Harness) -> None:
    replica, operation = await provisioned(harness)
    await harness.succeeded(await replica.release(operation.id))
    with pytest.raises(Gone, match="no longer serves"):
        await execute(replica, operation)
    await harness.pass_time(5.0)
    later = await harness.succeeded(await replica.provision(2, run="run-2"))
    assert {each.node_id for each in later.members} == {each.node_id for each in operation.members}
    with pytest.raises(Gone):
        await execute(replica, operation)
    assert await harness.commands() == []


@with_harness
async def test_a_gang_with_a_lost_node_takes_no_command_at_all(harness: Harness) -> None:
    replica, operation = await provisioned(harness, 3)
    node = await harness.node(operation.members[2].node_id)
    await harness.store.apply(condemn(node, now=harness.now, reason=Reason.OPERATOR))
    with pytest.raises(Gone, match=rf"{node.id} \(index 2\)"):
        await execute(replica, operation)
    assert await harness.commands() == []


@with_harness
async def test_those_that_are_left_of_a_gang_take_commands_by_their_index(harness: Harness) -> None:
    replica, operation = await provisioned(harness, 3)
    node = await harness.node(operation.members[1].node_id)
    await harness.store.apply(condemn(node, now=harness.now, reason=Reason.OPERATOR))
    made = await execute(replica, operation, indexes=(2, 0))
    assert [(each.ordinal, each.count) for each in made] == [(0, 3), (2, 3)]
    for beyond in (-1, len(operation.members)):
        with pytest.raises(InvalidRequest, match="indexes"):
            await execute(replica, operation, indexes=(0, beyond))


@with_harness
async def test_a_node_that_was_forgotten_is_gone_too(harness: Harness) -> None:
    replica, operation = await provisioned(harness, 2)
    node = await harness.node(operation.members[1].node_id)
    await harness.store.apply(condemn(node, now=harness.now, reason=Reason.OPERATOR))
    await harness.count(1, NodeState.TERMINATED)
    await harness.pass_time(1.0)
    assert (await harness.store.prune(before=harness.now, limit=9)).nodes == 1
    with pytest.raises(Gone, match="forgotten"):
        await execute(replica, operation)


@with_harness
async def test_a_provision_that_is_not_ready_takes_no_command(harness: Harness) -> None:
    await harness.template()
    harness.agents.usual = NEVER_BOOTS
    replica = await harness.replica()
    operation = await replica.provision(1)
    with pytest.raises(InvalidRequest, match="not ready yet"):
        await execute(replica, operation)
    await replica.cancel(operation.id)
    await harness.ended(operation)
    with pytest.raises(InvalidRequest, match="it has cancelled: it has no nodes"):
        await execute(replica, operation)


@with_harness
async def test_a_provision_that_is_being_handed_over_is_not_ready_yet(harness: Harness) -> None:
    await harness.template()
    replica, other = await harness.replica(), await harness.replica()
    refusals: list[str] = []

    async def too_early() -> None:
        (node,) = await harness.nodes(NodeState.CREATED)
        assert node.operation_id is not None
        operation = await harness.operation(node.operation_id)
        assert operation.committed
        with pytest.raises(InvalidRequest) as refusal:
            await execute(other, operation)
        refusals.append(refusal.value.rule)

    replica.interceptor.in_steps = True
    replica.interceptor.before("apply_all", too_early)
    await harness.succeeded(await replica.provision(1))
    assert refusals == ["its nodes are not ready yet: wait for it"]


@with_harness
async def test_only_provisions_take_commands(harness: Harness) -> None:
    replica, operation = await provisioned(harness, 1)
    release = await harness.succeeded(await replica.release(operation.id))
    with pytest.raises(InvalidRequest, match="must be a provision or a run, not a release"):
        await execute(replica, release)
    with pytest.raises(NotFound):
        await replica.ask(replica.plane.command_desk.execute(OperationId("op-nobody"), MAKE))


@with_harness
async def test_a_node_that_keeps_moving_gets_its_command_all_the_same(harness: Harness) -> None:
    replica, operation = await provisioned(harness, 1)

    async def drain() -> None:
        await replica.plane.operator.drain(operation.members[0].node_id)

    replica.interceptor.before("commands.start", drain)
    (made,) = await execute(replica, operation)
    assert (await harness.store.commands.command(made.id)).state is not CommandState.LOST
    assert (await harness.node(made.node_id)).drain


# --- cancelling -------------------------------------------------------------------------------------------


@with_harness
async def test_a_cancelled_command_is_killed_by_its_node_and_others_are_not(harness: Harness) -> None:
    replica, operation = await provisioned(harness, 2)
    doomed, spared = await execute(replica, operation)
    await harness.pass_time(1.0)

    asked = await replica.ask(replica.plane.command_desk.cancel(doomed.id))
    assert asked.cancel_requested_at == harness.now

    async def ended() -> bool:
        return (await harness.store.commands.command(doomed.id)).ended

    await harness.until(ended, within=5.0)
    killed = await harness.store.commands.command(doomed.id)
    assert (killed.state, killed.signal) == (CommandState.EXITED, 9)
    assert (await harness.store.commands.command(spared.id)).state is CommandState.RUNNING
    assert (await harness.node(doomed.node_id)).state is NodeState.RUNNING


@with_harness
async def test_cancelling_again_or_after_the_end_changes_nothing(harness: Harness) -> None:
    replica, operation = await provisioned(harness, 1, Behaviour(works=1.0))
    (command,) = await execute(replica, operation)
    await all_ended(harness)
    ended = await harness.store.commands.command(command.id)
    version = (await harness.node(command.node_id)).version
    for _ in range(2):
        assert await replica.ask(replica.plane.command_desk.cancel(command.id)) == ended
    assert (await harness.node(command.node_id)).version == version
    with pytest.raises(NotFound):
        await replica.ask(replica.plane.command_desk.cancel(CommandId("cmd-nobody")))


@with_harness
async def test_a_cancel_that_races_with_the_end_takes_the_end_as_it_is(harness: Harness) -> None:
    replica, operation = await provisioned(harness, 1)
    (command,) = await execute(replica, operation)
    await harness.pass_time(1.0)

    async def end() -> None:
        await harness.enrolment.commands.state(command.node_id, command.id, CommandState.EXITED, 7)

    replica.interceptor.before("commands.write", end)
    after = await replica.ask(replica.plane.command_desk.cancel(command.id))
    assert (after.state, after.exit_code, after.cancel_requested_at) == (CommandState.EXITED, 7, None)


@with_harness
async def test_a_command_can_be_cancelled_though_its_node_has_left(harness: Harness) -> None:
    replica, operation = await provisioned(harness, 1, Behaviour(works=None, detach=None))
    (command,) = await execute(replica, operation)
    await replica.release(operation.id)
    await harness.count(1, NodeState.RELEASING)
    version = (await harness.node(command.node_id)).version
    asked = await replica.ask(replica.plane.command_desk.cancel(command.id))
    assert asked.cancel_requested_at is not None
    assert (await harness.node(command.node_id)).version == version


# --- secrets ----------------------------------------------------------------------------------------------


@with_harness
async def test_an_environment_is_in_no_event_whether_executed_or_run(harness: Harness) -> None:
    replica, operation = await provisioned(harness, 1, Behaviour())
    secret = Execution(argv=("deploy",), env=(Variable(name="API_TOKEN", value="hunter2"),))
    (made,) = await execute(replica, operation, secret)
    assert made.environment["API_TOKEN"] == "hunter2"
    await all_ended(harness)
    told = repr(await harness.events())
    assert "hunter2" not in told and "API_TOKEN" not in told
