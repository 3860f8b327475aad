"""What a node may say about its commands, and what it is told of them."""

from dataclasses import replace

import pytest

from muster.domain.command import OUTPUT_CAP, Command, CommandState, Execution
from muster.domain.errors import Conflict, Forbidden, InvalidRequest, NotFound
from muster.domain.ids import AssignmentId, CommandId, NodeId
from muster.enrolment.commands import NodeCommands
from muster.ports.commands import Kept
from tests.harness import Harness, Replica, with_harness

PENDING, RUNNING, EXITED, LOST = CommandState


async def asked(harness: Harness, count: int = 1) -> tuple[NodeCommands, list[Command]]:
    """Commands that were not started: their agents are dead."""
    await harness.template()
    replica: Replica = await harness.replica()
    operation = await harness.succeeded(await replica.provision(count))
    for agent in harness.agents.by_machine.values():
        agent.die()
    made = await replica.ask(replica.plane.command_desk.execute(operation.id, Execution(argv=("make",))))
    return harness.enrolment.commands, list(made)


@with_harness
async def test_a_node_is_told_its_own_unfinished_commands(harness: Harness) -> None:
    post, (mine, others) = await asked(harness, 2)
    assert list(await post.unfinished(mine.node_id, mine.assignment_id)) == [mine]
    assert list(await post.unfinished(mine.node_id, others.assignment_id)) == []
    assert list(await post.unfinished(mine.node_id, AssignmentId("as-nobody"))) == []
    await post.state(mine.node_id, mine.id, EXITED, 0)
    assert list(await post.unfinished(mine.node_id, mine.assignment_id)) == []


@with_harness
async def test_a_node_speaks_for_its_own_commands_only(harness: Harness) -> None:
    post, (mine, others) = await asked(harness, 2)
    for state in CommandState:
        with pytest.raises(Forbidden):
            await post.state(mine.node_id, others.id, state, 0)
    with pytest.raises(Forbidden):
        await post.output(mine.node_id, others.id, 0, b"forged")
    with pytest.raises(Forbidden):
        await post.output(NodeId("node-nobody"), others.id, 0, b"forged")
    assert await harness.store.commands.command(others.id) == others
    assert await harness.store.commands.output(others.id, offset=0, limit=9) == b""


@with_harness
async def test_a_command_that_has_ended_takes_no_more_output(harness: Harness) -> None:
    post, (mine,) = await asked(harness)
    await post.output(mine.node_id, mine.id, 0, b"1 failed")
    await post.state(mine.node_id, mine.id, EXITED, 1)
    for offset, data in ((8, b", then 9 passed"), (0, b""), (0, b"9 passed")):
        with pytest.raises(Forbidden, match=r"it has ended \(exited\)"):
            await post.output(mine.node_id, mine.id, offset, data)
    assert await harness.store.commands.output(mine.id, offset=0, limit=99) == b"1 failed"


@with_harness
async def test_an_unknown_command_is_not_found(harness: Harness) -> None:
    post, (mine,) = await asked(harness)
    with pytest.raises(NotFound):
        await post.state(mine.node_id, CommandId("cmd-nobody"), RUNNING)
    with pytest.raises(NotFound):
        await post.output(mine.node_id, CommandId("cmd-nobody"), 0, b"")


@with_harness
async def test_everything_may_be_said_twice(harness: Harness) -> None:
    post, (mine,) = await asked(harness)
    assert await post.state(mine.node_id, mine.id, PENDING) == mine
    began = harness.now
    first = await post.state(mine.node_id, mine.id, RUNNING)
    await harness.pass_time(3.0)
    assert await post.state(mine.node_id, mine.id, RUNNING) == first
    assert await post.state(mine.node_id, mine.id, PENDING) == first
    ended = await post.state(mine.node_id, mine.id, EXITED, 3)
    await harness.pass_time(3.0)
    assert await post.state(mine.node_id, mine.id, EXITED, 3) == ended
    assert await post.state(mine.node_id, mine.id, RUNNING) == ended
    assert (ended.started_at, ended.ended_at, ended.exit_code) == (began, began + 3.0, 3)
    names = [event.name for event in await harness.events(mine.id)]
    assert names == ["pending", "running", "exited"]


@pytest.mark.parametrize("first", [EXITED, LOST])
@pytest.mark.parametrize("second", [EXITED, LOST])
@with_harness
async def test_the_first_word_about_an_end_stands(
    harness: Harness, first: CommandState, second: CommandState
) -> None:
    post, (mine,) = await asked(harness)
    ended = await post.state(mine.node_id, mine.id, first, 1 if first is EXITED else None)
    assert await post.state(mine.node_id, mine.id, second, 2) == ended
    assert ended.state is first
    assert ended.exit_code == (1 if first is EXITED else None)


@with_harness
async def test_a_command_may_end_before_its_start_was_heard_of(harness: Harness) -> None:
    post, (mine,) = await asked(harness)
    ended = await post.state(mine.node_id, mine.id, EXITED, None, 15)
    assert (ended.state, ended.signal, ended.started_at) == (EXITED, 15, None)


@pytest.mark.parametrize(
    ("exit_code", "signal"), [(-1, None), (256, None), (2**64, None), (None, 0), (None, 99)]
)
@with_harness
async def test_an_end_that_no_process_has_is_refused(
    harness: Harness, exit_code: int | None, signal: int | None
) -> None:
    post, (mine,) = await asked(harness)
    with pytest.raises(InvalidRequest):
        await post.state(mine.node_id, mine.id, EXITED, exit_code, signal)
    assert await harness.store.commands.command(mine.id) == mine


@with_harness
async def test_a_word_that_races_with_a_cancel_is_heard_all_the_same(harness: Harness) -> None:
    _, (mine,) = await asked(harness)
    replica = await harness.replica()
    post = replica.plane.enrolment.commands

    async def cancel() -> None:
        await replica.plane.command_desk.cancel(mine.id)

    replica.interceptor.before("commands.write", cancel)
    after = await replica.ask(post.state(mine.node_id, mine.id, RUNNING))
    assert after.state is RUNNING
    assert after.cancel_requested_at is not None


@with_harness
async def test_output_is_kept_by_offset_and_a_gap_is_sent_again(harness: Harness) -> None:
    post, (mine,) = await asked(harness)
    assert await post.output(mine.node_id, mine.id, 0, b"\x00\xff\n") == Kept(size=3, full=False)
    with pytest.raises(Conflict, match="only 3 bytes"):
        await post.output(mine.node_id, mine.id, 5, b"xx")
    assert await post.output(mine.node_id, mine.id, 1, b"\xff\nab") == Kept(size=5, full=False)
    assert await harness.store.commands.output(mine.id, offset=0, limit=99) == b"\x00\xff\nab"
    with pytest.raises(InvalidRequest, match="offset"):
        await post.output(mine.node_id, mine.id, -1, b"xx")


@with_harness
async def test_output_that_was_dropped_is_marked_in_the_record_once(harness: Harness) -> None:
    post, (mine,) = await asked(harness)
    full = Kept(size=OUTPUT_CAP, full=True)
    # Exactly the cap is not too much: only what comes after it is dropped.
    assert await post.output(mine.node_id, mine.id, 0, bytes(OUTPUT_CAP)) == replace(full, full=False)
    assert (await harness.store.commands.command(mine.id)).truncated_at is None
    for _ in range(2):
        assert await post.output(mine.node_id, mine.id, OUTPUT_CAP, b"more") == full
        marked = await harness.store.commands.command(mine.id)
        assert (marked.truncated_at, marked.version) == (OUTPUT_CAP, mine.version + 1)


@with_harness
async def test_a_command_moves_what_its_node_polls_for(harness: Harness) -> None:
    await harness.template()
    replica = await harness.replica()
    operation = await harness.succeeded(await replica.provision(1))
    (member,) = operation.members
    known = (await harness.node(member.node_id)).version
    (made,) = await replica.ask(replica.plane.command_desk.execute(operation.id, Execution(argv=("make",))))
    began = harness.now
    desired = await harness.enrolment.poll(member.node_id, known=known, timeout=20.0)
    assert desired.version > known
    assert harness.now == began
    assert made.assignment_id == desired.assignment_id
