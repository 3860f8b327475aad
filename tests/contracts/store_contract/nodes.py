import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from muster.domain import node as lifecycle
from muster.domain import operation as operations
from muster.domain.errors import Conflict, IllegalTransition, InvalidRequest, LeaseLost, NotFound
from muster.domain.health import Health
from muster.domain.ids import NodeId
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node, NodeChange
from muster.domain.operation import Member, Operation, OperationChange, Status
from muster.domain.progress import Progress
from muster.domain.reasons import Reason
from muster.ports.store import Beat, Cursor, NodeView, Store
from muster.stores import cursors
from tests.contracts.store_contract.bookkeeping import whole_feed
from tests.contracts.store_contract.records import EVERY_STATE, Records

_DONE = Progress(step=5, total_steps=5, phase="completed", label="completed")


@dataclass(frozen=True, slots=True)
class Completion:
    """The writes that complete an operation of two attached nodes."""

    store: Store
    commit: OperationChange
    handed_over: Sequence[NodeChange]
    end: OperationChange

    @classmethod
    async def ready(cls, records: Records) -> "Completion":
        store, operation = records.store, await records.leased()
        made = await records.created(operation, 2)
        bound = []
        for node in made:
            up = await store.apply(lifecycle.booted(node, now=3.0, deadline_at=500.0))
            bound.append(await store.apply(lifecycle.attached(up, now=4.0, deadline_at=500.0)))
        await store.record_beats([Beat(node_id=node.id, seen_at=5.0) for node in bound])
        members = tuple(
            Member(node_id=node.id, assignment_id=node.assignment_id) for node in bound if node.assignment_id
        )
        commit = operations.committed(operation, members, _DONE, now=6.0, fresh_for=20.0)
        end = operations.ended(commit.after, Status.SUCCEEDED, now=6.0, progress=_DONE)
        handed_over = [lifecycle.hand_over(node, now=6.0, deadline_at=900.0) for node in bound]
        return cls(store, commit, handed_over, end)

    async def write(self, *, at: float = 6.0) -> Operation:
        return await self.store.complete(
            self.commit, self.handed_over, self.end, fence=self.commit.before.fence, clock=lambda: at
        )


class NodeContract:
    async def test_a_node_write_is_stored_with_exactly_one_event(self, store: Store) -> None:
        records = Records(store)
        (node,) = await records.created(await records.leased(), 1)
        after = await store.apply(lifecycle.joined(node, boot_id="boot-1", now=5.0))
        assert await store.node(node.id) == after
        events = await whole_feed(store, entity_id=node.id)
        assert [event.name for event in events] == ["adopt", "joined"]
        assert events[1].changes == {"version": 2, "boot_id": "boot-1", "joined_at": 5.0, "phase": "joined"}
        assert events[1].at == 5.0

    async def test_a_node_that_moved_since_it_was_read_is_not_written(self, store: Store) -> None:
        records = Records(store)
        (node,) = await records.created(await records.leased(), 1)
        await store.apply(lifecycle.drained(node, now=5.0))
        with pytest.raises(Conflict):
            await store.apply(lifecycle.joined(node, boot_id="boot-1", now=5.0))
        assert [event.name for event in await whole_feed(store, entity_id=node.id)] == ["adopt", "drained"]

    async def test_of_concurrent_writers_of_one_node_exactly_one_wins(self, store: Store) -> None:
        records = Records(store)
        (node,) = await records.created(await records.leased(), 1)
        changes = [lifecycle.joined(node, boot_id=f"boot-{number}", now=5.0) for number in range(20)]
        ends = await asyncio.gather(*(store.apply(change) for change in changes), return_exceptions=True)
        winners = [end for end in ends if not isinstance(end, BaseException)]
        assert winners == [await store.node(node.id)]
        assert sum(isinstance(end, Conflict) for end in ends) == 19

    async def test_a_node_write_under_an_old_epoch_is_refused(self, store: Store) -> None:
        records = Records(store)
        operation, old = await records.taken_over()
        (node,) = await records.created(operation, 1)
        with pytest.raises(LeaseLost):
            await store.apply(lifecycle.drained(node, now=5.0), fence=old)
        assert await store.node(node.id) == node
        assert (await store.apply(lifecycle.drained(node, now=5.0), fence=operation.fence)).drain

    async def test_changes_of_several_nodes_are_written_in_one_go(self, store: Store) -> None:
        records = Records(store)
        made = await records.created(await records.leased(), 3)
        changes = [lifecycle.booted(node, now=3.0, deadline_at=9.0) for node in made]
        assert await store.apply_all(changes) == [change.after for change in changes]
        assert [await store.node(node.id) for node in made] == [change.after for change in changes]
        events = (await store.events(after=None, limit=100)).items
        assert [event.entity_id for event in events if event.name == "booted"] == [node.id for node in made]
        assert await store.apply_all([]) == []

    async def test_each_of_several_changes_is_guarded(self, store: Store) -> None:
        records = Records(store)
        operation = await records.leased()
        made = await records.created(operation, 2)
        moved = await store.apply(lifecycle.booted(made[1], now=3.0, deadline_at=9.0))
        changes = [lifecycle.booted(node, now=4.0, deadline_at=8.0) for node in made]
        with pytest.raises(Conflict):
            await store.apply_all(changes)
        assert await store.node(moved.id) == moved
        early = lifecycle.attached(moved, now=4.0, deadline_at=9.0).after
        with pytest.raises(Conflict, match="not committed"):
            await store.apply_all([lifecycle.hand_over(early, now=4.0, deadline_at=9.0)])

    async def test_several_changes_under_an_old_epoch_are_all_refused(self, store: Store) -> None:
        records = Records(store)
        operation, old = await records.taken_over()
        made = await records.created(operation, 2)
        changes = [lifecycle.booted(node, now=3.0, deadline_at=9.0) for node in made]
        with pytest.raises(LeaseLost):
            await store.apply_all(changes, fence=old)
        assert [await store.node(node.id) for node in made] == made
        assert len(await store.apply_all(changes, fence=operation.fence)) == 2

    async def test_a_node_stands_with_the_operation_it_belongs_to(self, store: Store) -> None:
        records = Records(store)
        operation = await records.leased()
        (node,) = await records.created(operation, 1)
        join = lifecycle.joined(node, boot_id="boot-1", now=5.0)
        await store.admit(join, node.id, key_hash="key-1", token_hash="token-1")
        expected = NodeView(node=join.after, operation=await store.operation(operation.id))
        assert await store.node_view(node.id) == expected
        assert await store.node_view_for_token("token-1") == expected
        await store.admit(None, node.id, key_hash="key-1", token_hash="token-2")
        assert await store.node_view_for_token("token-1") is None
        (idle,) = await records.idle(1)
        assert await store.node_view(idle.id) == NodeView(node=idle, operation=None)
        joined = lifecycle.joined(idle, boot_id="boot-1", now=5.0)
        await store.admit(joined, idle.id, key_hash="key-3", token_hash="token-3")
        assert await store.node_view_for_token("token-3") == NodeView(node=joined.after, operation=None)
        with pytest.raises(NotFound, match="node-x"):
            await store.node_view(NodeId("node-x"))

    async def test_losing_a_node_makes_a_commit_that_saw_it_fail(self, store: Store) -> None:
        records = Records(store)
        operation = await records.leased()
        (node,) = await records.created(operation, 1)
        seen = (await store.view(operation.id)).operation
        await store.apply(lifecycle.condemn(node, now=6.0, reason=Reason.OPERATOR))
        commit = operations.committed(seen, (), _DONE, now=7.0, fresh_for=20.0)
        with pytest.raises(Conflict):
            await store.write_operation(commit, fence=operation.fence, clock=lambda: 7.0)
        assert not (await store.operation(operation.id)).committed

    async def test_an_operation_is_completed_in_one_go(self, store: Store) -> None:
        records = Records(store)
        completion = await Completion.ready(records)
        over = await completion.write()
        assert (over.status, over.committed_at, over.lease_owner) == (Status.SUCCEEDED, 6.0, None)
        assert await store.operation(over.id) == over
        running = [change.after for change in completion.handed_over]
        assert [await store.node(node.id) for node in running] == running
        for name in (over.id, *(node.id for node in running)):
            feed = (await store.events(after=None, limit=100, entity_id=name)).items
            assert [event.version for event in feed] == list(range(1, len(feed) + 1))

    async def test_an_operation_that_may_not_commit_is_not_completed(self, store: Store) -> None:
        records = Records(store)
        taken = await Completion.ready(records)
        await store.seize(taken.commit.before.id, "replica-b", now=6.0, until=1e6)
        with pytest.raises(LeaseLost):
            await taken.write()
        silent = await Completion.ready(records)
        with pytest.raises(Conflict, match="heartbeat"):
            await silent.write(at=100.0)
        cancelled = await Completion.ready(records)
        cancel = operations.cancel_requested(cancelled.commit.before, now=6.0)
        assert cancel is not None
        await store.write_operation(cancel)
        with pytest.raises(Conflict):
            await cancelled.write()
        for each in (taken, silent, cancelled):
            operation = await store.operation(each.commit.before.id)
            assert not operation.committed and not operation.ended
            before = [change.before for change in each.handed_over]
            assert [await store.node(node.id) for node in before if node] == before

    async def test_an_operation_whose_node_moved_is_committed_at_most(self, store: Store) -> None:
        completion = await Completion.ready(Records(store))
        node = completion.handed_over[1].before
        assert node is not None
        await store.apply(lifecycle.drained(node, now=6.0))
        with pytest.raises(Conflict):
            await completion.write()
        operation = await store.operation(completion.commit.before.id)
        assert not operation.ended
        if not operation.committed:
            assert await store.node(completion.handed_over[0].after.id) == completion.handed_over[0].before

    async def test_after_the_commit_a_node_is_not_judged_before_it_runs(self, store: Store) -> None:
        records = Records(store)
        operation = await records.leased()
        (node,) = await records.created(operation, 1)
        up = await store.apply(lifecycle.booted(node, now=3.0, deadline_at=500.0))
        bound = await store.apply(lifecycle.attached(up, now=4.0, deadline_at=500.0))
        with pytest.raises(Conflict):
            await store.apply(lifecycle.hand_over(bound, now=5.0, deadline_at=900.0))
        assert bound.assignment_id is not None
        member = Member(node_id=bound.id, assignment_id=bound.assignment_id)
        await store.record_beats([Beat(node_id=bound.id, seen_at=5.0)])
        commit = operations.committed(operation, (member,), _DONE, now=6.0, fresh_for=20.0)
        committed = await store.write_operation(commit, fence=operation.fence, clock=lambda: 6.0)
        with pytest.raises(Conflict):
            await store.apply(lifecycle.condemn(bound, now=7.0, reason=Reason.OPERATOR))
        running = await store.apply(lifecycle.hand_over(bound, now=7.0, deadline_at=900.0))
        assert running.state is NodeState.RUNNING
        assert (await store.operation(operation.id)).version == committed.version

    async def test_a_node_is_never_adopted_by_a_plain_write(self, store: Store) -> None:
        records = Records(store)
        with pytest.raises(IllegalTransition):
            await store.apply(lifecycle.adopt(records.machine(None, state=NodeState.TERMINATING), now=5.0))

    async def test_a_node_that_is_gone_gives_its_room_back(self, store: Store) -> None:
        records = Records(store)
        (node,) = await records.created(await records.leased(), 1)
        assert (await store.usage("web")).template == 1
        doomed = await store.apply(lifecycle.condemn(node, now=6.0, reason=Reason.OPERATOR))
        assert (await store.usage("web")).total == 1
        await store.apply(lifecycle.confirm_gone(doomed, now=7.0))
        usage = await store.usage("web")
        assert (usage.template, usage.total) == (0, 0)

    async def test_a_missing_node_is_named(self, store: Store) -> None:
        with pytest.raises(NotFound, match="node-x"):
            await store.node(NodeId("node-x"))
        assert await store.node_by_machine("simulated", "m-x") is None

    async def test_a_machine_is_known_by_its_newest_record(self, store: Store) -> None:
        records = Records(store)
        first = records.machine(None, state=NodeState.TERMINATING, machine_id="m-1", now=1.0)
        assert await store.adopt_stray(first, now=1.0) == first
        gone = await store.apply(lifecycle.confirm_gone(first, now=2.0))
        assert await store.node_by_machine("simulated", "m-1") == gone
        assert await store.recorded("simulated", ["m-2", "m-1"]) == []
        second = records.machine(None, state=NodeState.TERMINATING, machine_id="m-1", now=3.0)
        assert await store.adopt_stray(second, now=3.0) == second
        assert await store.node_by_machine("simulated", "m-1") == second
        assert await store.recorded("simulated", ["m-2", "m-1"]) == ["m-1"]
        assert await store.recorded("other", ["m-1"]) == []

    async def test_a_stray_is_recorded_once_and_counts(self, store: Store) -> None:
        records = Records(store)
        strays = [records.machine(None, state=NodeState.TERMINATING, machine_id="m-1") for _ in range(8)]
        ends = await asyncio.gather(*(store.adopt_stray(stray, now=3.0) for stray in strays))
        assert sum(end is not None for end in ends) == 1
        assert (await store.usage("web")).total == 1

    async def test_a_machine_of_an_open_launch_is_no_stray(self, store: Store) -> None:
        records = Records(store)
        operation = await records.leased()
        launch = await records.called(records.plan(operation), operation.fence)
        stray = records.machine(launch, state=NodeState.TERMINATING, bound=False)
        with pytest.raises(Conflict):
            await store.adopt_stray(stray, now=3.0)

    async def test_nodes_are_listed_by_id_in_pages_that_miss_and_repeat_nothing(self, store: Store) -> None:
        records = Records(store)
        made = await records.created(await records.leased(), 7)
        doomed = await store.apply(lifecycle.condemn(made[3], now=6.0, reason=Reason.OPERATOR))
        other = records.machine(None, state=NodeState.TERMINATING)
        await store.adopt_stray(replace(other, template="api"), now=6.0)
        found: list[Node] = []
        after = None
        while True:
            page = await store.nodes(states=EVERY_STATE, template="web", after=after, limit=2)
            found.extend(page.items)
            after = page.next
            if after is None:
                break
        assert found == [doomed if node.id == doomed.id else node for node in made]
        both = await store.nodes(states=[NodeState.TERMINATING], template=None, after=None, limit=10)
        assert [node.id for node in both.items] == sorted([doomed.id, other.id])
        assert both.next is None
        assert await store.count_nodes(state=NodeState.CREATED, template="web") == 6
        assert await store.count_nodes(state=NodeState.TERMINATING, template=None) == 2
        assert (await store.nodes(states=[], template=None, after=None, limit=10)).items == ()

    async def test_due_nodes_come_longest_overdue_first(self, store: Store) -> None:
        records = Records(store)
        operation = await records.leased()
        launch = await records.called(records.plan(operation, size=4), operation.fence)
        nodes = [records.machine(launch, deadline_at=at) for at in (30.0, 10.0, 20.0, None)]
        await records.adopted(launch, nodes)
        assert list(await store.nodes_due(now=20.0, limit=10)) == [nodes[1], nodes[2]]
        assert list(await store.nodes_due(now=19.9, limit=10)) == [nodes[1]]
        assert list(await store.nodes_due(now=99.0, limit=1)) == [nodes[1]]

    async def test_the_first_join_gives_credentials_and_another_key_is_refused(self, store: Store) -> None:
        records = Records(store)
        (node,) = await records.created(await records.leased(), 1)
        join = lifecycle.joined(node, boot_id="boot-1", now=5.0)
        await store.admit(join, node.id, key_hash="key-1", token_hash="token-1")
        assert await store.admitted_key(node.id) == "key-1"
        assert await store.node_for_token("token-1") == node.id
        assert (await store.node(node.id)).joined_at == 5.0
        await store.admit(None, node.id, key_hash="key-1", token_hash="token-2")
        assert await store.node_for_token("token-1") is None
        assert await store.node_for_token("token-2") == node.id
        with pytest.raises(Conflict):
            await store.admit(None, node.id, key_hash="key-2", token_hash="token-3")
        assert await store.node_for_token("token-2") == node.id
        assert await store.admitted_key(NodeId("node-x")) is None

    async def test_a_node_that_never_joined_has_no_token_to_renew(self, store: Store) -> None:
        records = Records(store)
        (node,) = await records.created(await records.leased(), 1)
        with pytest.raises(Conflict):
            await store.admit(None, node.id, key_hash="key-1", token_hash="token-1")
        stale = lifecycle.joined(replace(node, version=9), boot_id="boot-1", now=5.0)
        with pytest.raises(Conflict):
            await store.admit(stale, node.id, key_hash="key-1", token_hash="token-1")
        assert await store.admitted_key(node.id) is None

    async def test_a_beat_never_moves_back_and_never_touches_the_record(self, store: Store) -> None:
        records = Records(store)
        (node,) = await records.created(await records.leased(), 1)
        unknown = NodeId("node-x")
        for at in (10.0, 30.0, 20.0):
            await store.record_beats([Beat(node_id=node.id, seen_at=at), Beat(node_id=unknown, seen_at=at)])
        assert await store.last_seen([node.id, unknown]) == {node.id: 30.0}
        assert await store.node(node.id) == node
        await store.record_beats([])

    async def test_nodes_that_only_live_are_seen_without_a_beat_each(self, store: Store) -> None:
        records = Records(store)
        first, second = await records.created(await records.leased(), 2)
        unknown = NodeId("node-x")
        await store.record_beats([], {10.0: {first.id: None, second.id: None, unknown: None}})
        # Of several times in one call the latest counts, whatever their order.
        await store.record_beats([], {30.0: {first.id: None}, 20.0: {first.id: None, second.id: None}})
        assert await store.last_seen([first.id, second.id, unknown]) == {first.id: 30.0, second.id: 20.0}
        telling = Beat(node_id=first.id, seen_at=41.0, activity=7)
        await store.record_beats([telling], {40.0: {second.id: None}})
        assert await store.last_seen([first.id, second.id]) == {first.id: 41.0, second.id: 40.0}
        assert (await store.vitals([first.id]))[first.id].activity == 7
        assert await store.node(first.id) == first

    async def test_what_a_node_said_outlives_a_later_beat_of_the_same_call(self, store: Store) -> None:
        records = Records(store)
        (node,) = await records.created(await records.leased(), 1)
        await store.record_beats([], {30.0: {node.id: None}})
        telling = Beat(node.id, 40.0, 7, Health.DEGRADED, "slow")
        await store.record_beats([telling], {41.0: {node.id: None}})
        vitals = (await store.vitals([node.id]))[node.id]
        assert (vitals.seen_at, vitals.said, vitals.activity) == (41.0, Health.DEGRADED, 7)

    async def test_a_garbled_cursor_is_refused(self, store: Store) -> None:
        records = Records(store)
        await records.created(await records.leased(), 2)
        page = await store.nodes(states=EVERY_STATE, template=None, after=None, limit=1)
        foreign = (await store.events(after=None, limit=1)).next
        assert page.next is not None
        garbled = [Cursor("x"), Cursor(""), Cursor(page.next[:-1]), Cursor("é" + page.next)]
        for place, letter in enumerate(page.next):
            other = "B" if letter == "A" else "A"
            garbled.append(Cursor(page.next[:place] + other + page.next[place + 1 :]))
        for cursor in (*garbled, foreign):
            with pytest.raises(InvalidRequest, match="cursor"):
                await store.nodes(states=EVERY_STATE, template=None, after=cursor, limit=1)
        impossible = [cursors.encode("events", place) for place in (10**30, -1, True)]
        for cursor in (*garbled, page.next, *impossible):
            with pytest.raises(InvalidRequest, match="cursor"):
                await store.events(after=cursor, limit=1)
