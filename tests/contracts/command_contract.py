"""The contract of the command port as code: every adapter runs it unchanged.

An adapter's test module subclasses `CommandContract` and gives it two fixtures: `store` (an empty one) and
`commands` (the command port over it).
"""

import asyncio
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

import pytest

from muster.domain import command as lifecycle
from muster.domain import node as nodes
from muster.domain import operation as operations
from muster.domain.command import OUTPUT_CAP, Command, CommandState, Execution, Variable
from muster.domain.errors import Conflict, LeaseLost, NotFound
from muster.domain.events import Entity
from muster.domain.ids import AssignmentId, CommandId
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Kind, Member, Operation, Status
from muster.domain.progress import Progress
from muster.domain.reasons import Reason
from muster.domain.requests import ReleaseRequest
from muster.domain.run_decisions import provision_key, release_key
from muster.domain.terminal import Traffic, Window
from muster.ports.commands import CommandStore, Kept
from muster.ports.store import Beat, Store
from tests.contracts.store_contract.bookkeeping import whole_feed
from tests.contracts.store_contract.records import Records

STEP = Progress(step=4, total_steps=5, phase="handing_over", label="Handing over", percent=80.0)
EXECUTION = Execution(
    argv=("make", "test"),
    env=(Variable(name="API_TOKEN", value="hunter2"),),
    timeout=60.0,
    archive="blob-1",
    collect=("out",),
)
SHELL = Execution(argv=("sh",), terminal=Window(rows=24, cols=80))
NUMBERS = count(1)
"""Several provisions in one store have nodes of different names."""
LONG_AGO, NOW, MUCH_LATER = 5.0, 10.0, 1e6


async def provisioned(store: Store, size: int = 1) -> tuple[Operation, list[Node]]:
    """A provision that has ended well, with its nodes running."""
    records = Records(store, numbers=NUMBERS)
    operation = await records.leased()
    attached = []
    for node in await records.created(operation, size):
        up = await store.apply(nodes.booted(node, now=3.0, deadline_at=500.0))
        attached.append(await store.apply(nodes.attached(up, now=3.0, deadline_at=500.0)))
    return await handed_over(store, operation, attached)


async def handed_over(
    store: Store, operation: Operation, attached: list[Node]
) -> tuple[Operation, list[Node]]:
    members = tuple(
        Member(node_id=node.id, assignment_id=node.assignment_id) for node in attached if node.assignment_id
    )
    present = await store.operation(operation.id)
    await store.record_beats([Beat(node_id=node.id, seen_at=4.0) for node in attached])
    commit = operations.committed(present, members, STEP, now=4.0, fresh_for=20.0)
    committed = await store.write_operation(commit, clock=lambda: 4.0)
    running = [await store.apply(nodes.hand_over(node, now=LONG_AGO, deadline_at=900.0)) for node in attached]
    end = operations.ended(committed, Status.SUCCEEDED, now=LONG_AGO, progress=None)
    return await store.write_operation(end), running


def asked(node: Node, name: str = "cmd-1", **fields: Any) -> Command:
    assert node.assignment_id is not None and node.operation_id is not None
    given: dict[str, Any] = {
        "id": CommandId(name),
        "operation_id": node.operation_id,
        "assignment_id": node.assignment_id,
        "node_id": node.id,
        "ordinal": 0,
        "count": 1,
        "run": "run-1",
        "execution": EXECUTION,
        "created_at": NOW,
    }
    return Command(**(given | fields))


async def start(
    store: Store, commands: CommandStore, node: Node, name: str = "cmd-1", **more: Any
) -> Command:
    present = await store.node(node.id)
    return await commands.start(asked(node, name, **more), nodes.commanded(present, now=NOW))


async def gone(store: Store, node: Node, *, now: float = 20.0) -> None:
    doomed = await store.apply(nodes.condemn(await store.node(node.id), now=now, reason=Reason.OPERATOR))
    await store.apply(nodes.confirm_gone(doomed, now=now))


class CommandContract:
    @pytest.fixture
    async def node(self, store: Store) -> Node:
        _, (node,) = await provisioned(store)
        return node

    @pytest.fixture
    async def command(self, store: Store, commands: CommandStore, node: Node) -> Command:
        return await start(store, commands, node)

    # --- starting ---------------------------------------------------------------------------------

    async def test_a_command_is_kept_whole(self, commands: CommandStore, command: Command) -> None:
        assert await commands.command(command.id) == command
        assert command.execution == EXECUTION

    async def test_a_shell_is_kept_with_its_person_and_its_traffic(
        self, store: Store, commands: CommandStore, node: Node
    ) -> None:
        shell = await start(store, commands, node, "cmd-2", execution=SHELL, actor="ann (tok-1)")
        assert await commands.command(shell.id) == shell
        traffic = Traffic(received=12, sent=2**40)
        ended = lifecycle.exited(shell, exit_code=0, signal=None, now=20.0, traffic=traffic)
        await commands.write(shell, ended)
        assert await commands.command(shell.id) == ended
        *_, event = await whole_feed(store)
        assert (event.name, event.actor) == ("exited", "ann (tok-1)")

    async def test_the_shell_of_a_failed_node_that_is_kept_is_served_until_the_node_ends(
        self, store: Store, commands: CommandStore
    ) -> None:
        records = Records(store, numbers=NUMBERS)
        (created,) = await records.created(await records.leased(), 1)
        failing = nodes.fail(created, now=6.0, reason=Reason.BOOT_SCRIPT_FAILED, deadline_at=900.0, hold=True)
        failed = await store.apply(failing)
        shell = await start(store, commands, failed, "cmd-3", execution=SHELL)
        assert list(await commands.unserved(limit=9)) == []
        await gone(store, failed)
        assert list(await commands.unserved(limit=9)) == [shell]

    async def test_starting_moves_the_nodes_version_in_the_same_write(
        self, store: Store, commands: CommandStore, node: Node, command: Command
    ) -> None:
        assert await store.node(node.id) == replace(node, version=node.version + 1)
        names = [(event.entity, event.name) for event in await whole_feed(store)]
        assert names[-2:] == [(Entity.NODE, "commanded"), (Entity.COMMAND, "pending")]

    async def test_starting_again_gives_what_is_there_and_writes_nothing(
        self, store: Store, commands: CommandStore, node: Node, command: Command
    ) -> None:
        begun = await commands.write(command, lifecycle.started(command, now=11.0))
        feed = await whole_feed(store)
        again = await start(store, commands, node, created_at=99.0)
        stale = await commands.start(asked(node), nodes.commanded(node, now=NOW))
        assert again == stale == begun
        assert await whole_feed(store) == feed
        assert (await store.node(node.id)).version == node.version + 1

    async def test_a_node_that_moved_is_given_no_command(
        self, store: Store, commands: CommandStore, node: Node
    ) -> None:
        await store.apply(nodes.release(node, now=9.0, deadline_at=99.0))
        feed = await whole_feed(store)
        with pytest.raises(Conflict):
            await commands.start(asked(node), nodes.commanded(node, now=NOW))
        with pytest.raises(NotFound):
            await commands.command(CommandId("cmd-1"))
        assert await whole_feed(store) == feed

    async def test_of_two_starts_at_one_version_of_the_node_one_wins(
        self, store: Store, commands: CommandStore, node: Node
    ) -> None:
        change = nodes.commanded(node, now=NOW)
        answers = await asyncio.gather(
            *(commands.start(asked(node, f"cmd-{n}"), change) for n in range(4)), return_exceptions=True
        )
        assert sum(isinstance(answer, Command) for answer in answers) == 1
        assert sum(isinstance(answer, Conflict) for answer in answers) == 3
        assert node.assignment_id is not None
        assert len(await commands.unfinished(node.assignment_id)) == 1

    async def test_starting_one_command_many_times_at_once_makes_one(
        self, store: Store, commands: CommandStore, node: Node
    ) -> None:
        change = nodes.commanded(node, now=NOW)
        answers = await asyncio.gather(*(commands.start(asked(node), change) for _ in range(8)))
        assert answers == [asked(node)] * 8
        assert (await store.node(node.id)).version == node.version + 1

    # --- the guarded write ------------------------------------------------------------------------

    async def test_a_write_that_read_an_old_version_is_refused(
        self, store: Store, commands: CommandStore, node: Node, command: Command
    ) -> None:
        begun = await commands.write(command, lifecycle.started(command, now=11.0))
        feed = await whole_feed(store)
        with pytest.raises(Conflict):
            await commands.write(command, lifecycle.lost(command, detail="late", now=12.0))
        assert await commands.command(command.id) == begun
        assert await whole_feed(store) == feed

    async def test_a_refused_write_does_not_tell_the_node(
        self, store: Store, commands: CommandStore, node: Node, command: Command
    ) -> None:
        present = await store.node(node.id)
        await commands.write(command, lifecycle.started(command, now=11.0))
        asked_for = lifecycle.cancel_requested(command, now=12.0)
        assert asked_for is not None
        with pytest.raises(Conflict):
            await commands.write(command, asked_for, nodes.commanded(present, now=12.0))
        assert await store.node(node.id) == present

    async def test_a_write_whose_node_moved_is_refused_whole(
        self, store: Store, commands: CommandStore, node: Node, command: Command
    ) -> None:
        asked_for = lifecycle.cancel_requested(command, now=12.0)
        assert asked_for is not None
        with pytest.raises(Conflict):
            await commands.write(command, asked_for, nodes.commanded(node, now=12.0))
        assert await commands.command(command.id) == command

    async def test_a_cancel_tells_the_node_in_the_same_write(
        self, store: Store, commands: CommandStore, node: Node, command: Command
    ) -> None:
        present = await store.node(node.id)
        asked_for = lifecycle.cancel_requested(command, now=12.0)
        assert asked_for is not None
        await commands.write(command, asked_for, nodes.commanded(present, now=12.0))
        assert (await commands.command(command.id)).cancel_requested_at == 12.0
        assert (await store.node(node.id)).version == present.version + 1

    async def test_an_unknown_command_is_not_found(self, commands: CommandStore) -> None:
        nobody = CommandId("cmd-nobody")
        for question in (
            commands.command(nobody),
            commands.output(nobody, offset=0, limit=9),
            commands.append_output(nobody, offset=0, data=b"x"),
        ):
            with pytest.raises(NotFound):
                await question

    # --- events -----------------------------------------------------------------------------------

    async def test_events_tell_each_state_at_its_time_and_never_what_is_executed(
        self, store: Store, commands: CommandStore, command: Command
    ) -> None:
        begun = await commands.write(command, lifecycle.started(command, now=11.0))
        await commands.write(begun, lifecycle.exited(begun, exit_code=2, signal=None, now=12.0))
        found = await whole_feed(store, entity_id=command.id)
        assert [(event.name, event.version, event.at) for event in found] == [
            ("pending", 1, NOW),
            ("running", 2, 11.0),
            ("exited", 3, 12.0),
        ]
        everything = repr(await whole_feed(store))
        assert "hunter2" not in everything and "API_TOKEN" not in everything

    async def test_no_event_of_a_run_tells_its_environment(self, store: Store) -> None:
        records = Records(store)
        run = await records.submitted(kind=Kind.RUN)
        assert "'CI'" in repr(run.request), "the record keeps it"
        assert "'CI'" not in repr(await whole_feed(store))

    # --- lists ------------------------------------------------------------------------------------

    async def test_the_commands_of_a_provision_come_oldest_first(
        self, store: Store, commands: CommandStore
    ) -> None:
        operation, (one, other) = await provisioned(store, 2)
        _, (stranger,) = await provisioned(store)
        late = await start(store, commands, one, "cmd-a", created_at=30.0)
        soon = await start(store, commands, other, "cmd-b", created_at=20.0)
        twin = await start(store, commands, one, "cmd-c", created_at=20.0)
        await start(store, commands, stranger, "cmd-d")
        assert list(await commands.of_operation(operation.id)) == [soon, twin, late]

    async def test_an_assignments_unfinished_commands_are_those_that_have_not_ended(
        self, store: Store, commands: CommandStore
    ) -> None:
        _, (one, other) = await provisioned(store, 2)
        made = [await start(store, commands, one, f"cmd-{n}", created_at=20.0 - n) for n in range(4)]
        await start(store, commands, other, "cmd-other")
        begun = await commands.write(made[1], lifecycle.started(made[1], now=21.0))
        await commands.write(made[2], lifecycle.exited(made[2], exit_code=0, signal=None, now=22.0))
        await commands.write(made[3], lifecycle.lost(made[3], detail="", now=22.0))
        assert one.assignment_id is not None
        assert list(await commands.unfinished(one.assignment_id)) == [begun, made[0]]
        assert list(await commands.unfinished(AssignmentId("as-nobody"))) == []

    async def test_a_command_is_forsaken_once_its_node_no_longer_serves_its_assignment(
        self, store: Store, commands: CommandStore, node: Node, command: Command
    ) -> None:
        assert list(await commands.unserved(limit=9)) == []
        present = await store.node(node.id)
        leaving = await store.apply(nodes.release(present, now=12.0, deadline_at=99.0))
        assert list(await commands.unserved(limit=9)) == [], "it may still tell how it ended"
        await store.apply(nodes.clean(leaving, now=13.0, deadline_at=99.0))
        assert list(await commands.unserved(limit=9)) == [command]
        await commands.write(command, lifecycle.lost(command, detail="", now=14.0))
        assert list(await commands.unserved(limit=9)) == []

    async def test_a_command_of_a_dying_dead_or_forgotten_node_is_forsaken(
        self, store: Store, commands: CommandStore, node: Node, command: Command
    ) -> None:
        present = await store.node(node.id)
        doomed = await store.apply(nodes.condemn(present, now=12.0, reason=Reason.MACHINE_GONE))
        assert list(await commands.unserved(limit=9)) == [command]
        await store.apply(nodes.confirm_gone(doomed, now=13.0))
        assert list(await commands.unserved(limit=9)) == [command]

    async def test_a_command_of_the_nodes_last_run_is_forsaken_though_it_serves_another(
        self, store: Store, commands: CommandStore, node: Node, command: Command
    ) -> None:
        present = await store.node(node.id)
        leaving = await store.apply(nodes.release(present, now=12.0, deadline_at=999.0))
        idle = await store.apply(nodes.clean(leaving, now=13.0, deadline_at=999.0))
        records = Records(store, numbers=NUMBERS)
        operation = await records.leased()
        await store.record_beats([Beat(node_id=idle.id, seen_at=100.0)])
        (claimed,) = await records.claim(operation, 1)
        bound = await store.apply(nodes.attached(claimed, now=100.0, deadline_at=500.0))
        _, (again,) = await handed_over(store, operation, [bound])
        assert (again.id, again.state) == (node.id, NodeState.RUNNING)
        fresh = await start(store, commands, again, "cmd-2")
        assert list(await commands.unserved(limit=9)) == [command]
        assert list(await commands.unfinished(fresh.assignment_id)) == [fresh]

    async def test_forsaken_commands_come_oldest_first_and_bounded(
        self, store: Store, commands: CommandStore, node: Node
    ) -> None:
        made = [await start(store, commands, node, f"cmd-{n}", created_at=20.0 - n) for n in range(3)]
        await gone(store, node)
        assert list(await commands.unserved(limit=2)) == [made[2], made[1]]

    async def test_a_command_is_overdue_from_its_deadline_until_it_ends(
        self, store: Store, commands: CommandStore, node: Node
    ) -> None:
        late = await start(store, commands, node, "cmd-late", deadline_at=40.0)
        later = await start(store, commands, node, "cmd-a", deadline_at=41.0)
        await start(store, commands, node, "cmd-free")
        assert list(await commands.overdue(now=39.9, limit=9)) == []
        assert list(await commands.overdue(now=40.0, limit=9)) == [late]
        assert list(await commands.overdue(now=41.0, limit=9)) == [late, later]
        assert list(await commands.overdue(now=41.0, limit=1)) == [late]
        await commands.write(late, lifecycle.unanswered(late, now=42.0))
        assert list(await commands.overdue(now=42.0, limit=9)) == [later]

    async def test_pages_of_commands_come_newest_first_and_miss_nothing(
        self, store: Store, commands: CommandStore, node: Node
    ) -> None:
        for n in range(5):
            await start(store, commands, node, f"cmd-{n}", created_at=20.0 + n // 2)
            await start(store, commands, node, f"cmd-x{n}", created_at=20.0, run="run-2")
        found: list[str] = []
        cursor = None
        while True:
            page = await commands.commands(run="run-1", after=cursor, limit=2)
            found += [command.id for command in page.items]
            cursor = page.next
            if cursor is None:
                break
        assert found == ["cmd-4", "cmd-3", "cmd-2", "cmd-1", "cmd-0"]
        whole = await commands.commands(run=None, after=None, limit=10)
        assert len(whole.items) == 10 and whole.next is None
        assert (await commands.commands(run="run-3", after=None, limit=9)).items == ()

    # --- output -----------------------------------------------------------------------------------

    async def test_output_is_read_from_any_offset_across_pieces(
        self, commands: CommandStore, command: Command
    ) -> None:
        whole = bytes(range(256)) * 2
        offset = 0
        for size in (1, 2, 100, 300, 109):
            kept = await commands.append_output(command.id, offset=offset, data=whole[offset : offset + size])
            offset += size
            assert kept == Kept(size=offset, full=False)
        for start_at in (0, 1, 2, 3, 102, 103, 104, 403, 510, 511, 512, 513, 10**6):
            for limit in (0, 1, 2, 101, 512, 10**6):
                read = await commands.output(command.id, offset=start_at, limit=limit)
                assert read == whole[start_at : start_at + limit], (start_at, limit)

    async def test_a_command_that_said_nothing_has_no_output(
        self, commands: CommandStore, command: Command
    ) -> None:
        assert await commands.append_output(command.id, offset=0, data=b"") == Kept(size=0, full=False)
        assert await commands.output(command.id, offset=0, limit=9) == b""

    async def test_what_is_said_again_is_kept_once(self, commands: CommandStore, command: Command) -> None:
        for offset, data, size in (
            (0, b"abcd", 4),
            (0, b"abcd", 4),
            (2, b"cd", 4),
            (1, b"b", 4),
            (4, b"", 4),
            (2, b"cdef", 6),
            (0, b"abcdefg", 7),
        ):
            kept = await commands.append_output(command.id, offset=offset, data=data)
            assert kept == Kept(size=size, full=False)
        assert await commands.output(command.id, offset=0, limit=99) == b"abcdefg"

    async def test_the_first_word_about_a_place_stands(
        self, commands: CommandStore, command: Command
    ) -> None:
        await commands.append_output(command.id, offset=0, data=b"abcd")
        await commands.append_output(command.id, offset=1, data=b"XXXX")
        assert await commands.output(command.id, offset=0, limit=99) == b"abcdX"

    async def test_a_gap_is_refused_and_changes_nothing(
        self, commands: CommandStore, command: Command
    ) -> None:
        with pytest.raises(Conflict, match="only 0 bytes"):
            await commands.append_output(command.id, offset=1, data=b"x")
        await commands.append_output(command.id, offset=0, data=b"abc")
        for offset in (4, OUTPUT_CAP, 2**70):
            with pytest.raises(Conflict, match="only 3 bytes"):
                await commands.append_output(command.id, offset=offset, data=b"x")
        assert await commands.output(command.id, offset=0, limit=99) == b"abc"

    @pytest.mark.parametrize("beyond", [-1, 0, 1])
    async def test_output_is_cut_at_the_cap_and_not_before(
        self, commands: CommandStore, command: Command, beyond: int
    ) -> None:
        size = OUTPUT_CAP + beyond
        data = b"0123456789abcdef" * (OUTPUT_CAP // 16 + 1)
        kept = await commands.append_output(command.id, offset=0, data=data[:size])
        assert kept == Kept(size=min(size, OUTPUT_CAP), full=beyond > 0)
        more = await commands.append_output(command.id, offset=kept.size, data=b"yz")
        assert more == Kept(size=OUTPUT_CAP, full=True)
        again = await commands.append_output(command.id, offset=kept.size, data=b"yz")
        assert again == more
        tail = await commands.output(command.id, offset=OUTPUT_CAP - 2, limit=99)
        assert tail == (b"ey" if beyond < 0 else b"ef")
        with pytest.raises(Conflict):
            await commands.append_output(command.id, offset=OUTPUT_CAP + 1, data=b"z")

    async def test_reading_far_past_the_end_gives_nothing(
        self, commands: CommandStore, command: Command
    ) -> None:
        await commands.append_output(command.id, offset=0, data=b"abc")
        for offset in (3, OUTPUT_CAP, 2**63, 2**70):
            assert await commands.output(command.id, offset=offset, limit=9) == b""
        assert await commands.output(command.id, offset=1, limit=2**70) == b"bc"

    async def test_pieces_sent_at_once_and_out_of_order_make_one_whole(
        self, commands: CommandStore, command: Command
    ) -> None:
        whole = Random(7).randbytes(2000)
        pieces = [(at, whole[at : at + 130]) for at in range(0, 2000, 100)]

        async def send(offset: int, data: bytes) -> None:
            while True:
                try:
                    await commands.append_output(command.id, offset=offset, data=data)
                except Conflict:
                    await asyncio.sleep(0)
                else:
                    return

        await asyncio.gather(*(send(*piece) for piece in reversed(pieces + pieces)))
        assert await commands.output(command.id, offset=0, limit=9999) == whole

    async def test_outputs_of_two_commands_do_not_mix(
        self, store: Store, commands: CommandStore, node: Node, command: Command
    ) -> None:
        other = await start(store, commands, node, "cmd-2")
        await commands.append_output(command.id, offset=0, data=b"one")
        await commands.append_output(other.id, offset=0, data=b"two!")
        assert await commands.output(command.id, offset=0, limit=9) == b"one"
        assert await commands.output(other.id, offset=0, limit=9) == b"two!"

    async def test_output_may_come_after_the_end(self, commands: CommandStore, command: Command) -> None:
        await commands.write(command, lifecycle.exited(command, exit_code=0, signal=None, now=12.0))
        await commands.append_output(command.id, offset=0, data=b"last words")
        assert await commands.output(command.id, offset=5, limit=9) == b"words"

    # --- forgetting -------------------------------------------------------------------------------

    async def test_commands_and_their_output_are_forgotten_with_their_provision(
        self, store: Store, commands: CommandStore, node: Node, command: Command
    ) -> None:
        _, (stays,) = await provisioned(store)
        other = await start(store, commands, stays, "cmd-2")
        for each in (command, other):
            await commands.append_output(each.id, offset=0, data=b"abc")
        await gone(store, node)
        assert (await store.prune(before=MUCH_LATER, limit=100)).operations == 1
        with pytest.raises(NotFound):
            await commands.command(command.id)
        assert [each.id for each in (await commands.commands(run=None, after=None, limit=9)).items] == [
            other.id
        ]
        assert await commands.output(other.id, offset=0, limit=9) == b"abc"
        _, (node,) = await provisioned(store)
        anew = await start(store, commands, node)
        assert await commands.output(anew.id, offset=0, limit=9) == b"", "its output was forgotten too"

    async def test_commands_stay_as_long_as_a_node_of_their_provision(
        self, store: Store, commands: CommandStore
    ) -> None:
        _, (one, other) = await provisioned(store, 2)
        command = await start(store, commands, one)
        await gone(store, one)
        assert (await store.prune(before=MUCH_LATER, limit=100)).operations == 0
        assert await commands.command(command.id) == command
        assert list(await commands.unserved(limit=9)) == [command], "also of a node that is forgotten"
        assert (await store.node(other.id)).state is NodeState.RUNNING

    async def test_the_parts_of_an_unfinished_run_are_not_forgotten(self, store: Store) -> None:
        records = Records(store)
        run = await records.submitted(kind=Kind.RUN)
        parts: list[Operation] = []
        for key in (provision_key(run.id), release_key(run.id)):
            kind = Kind.PROVISION if key == provision_key(run.id) else Kind.RELEASE
            request = None if kind is Kind.PROVISION else ReleaseRequest(operation_id=parts[0].id)
            part, _ = await store.submit(records.draft(kind=kind, request=request, key=key))
            parts.append(part)
        for part in parts:
            await store.write_operation(operations.ended(part, Status.FAILED, now=8.0, progress=None))
        assert (await store.prune(before=MUCH_LATER, limit=100)).operations == 0
        assert await store.operation_by_key(provision_key(run.id)) is not None
        await store.write_operation(operations.ended(run, Status.FAILED, now=9.0, progress=None))
        assert (await store.prune(before=MUCH_LATER, limit=100)).operations == 3

    async def test_what_a_run_asks_for_is_refused_once_it_was_taken_over(self, store: Store) -> None:
        records = Records(store)
        taken, stale = await records.taken_over()
        feed = await whole_feed(store)
        with pytest.raises(LeaseLost):
            await store.submit(records.draft(key="key-1"), fence=stale)
        assert await store.operation_by_key("key-1") is None
        assert await whole_feed(store) == feed
        asked_for, made = await store.submit(records.draft(key="key-1"), fence=taken.fence)
        assert made
        assert await store.operation_by_key("key-1") == asked_for

    async def test_a_state_is_stored_as_it_is(self, commands: CommandStore, command: Command) -> None:
        begun = lifecycle.started(command, now=11.0)
        ended = lifecycle.exited(begun, exit_code=None, signal=9, now=12.0)
        for before, after in ((command, begun), (begun, ended)):
            await commands.write(before, after)
            assert await commands.command(command.id) == after
        assert (await commands.command(command.id)).state is CommandState.EXITED
