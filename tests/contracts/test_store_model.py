"""The store against a model that fits on two pages: dictionaries, no guards missing, no cleverness."""

from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from muster.domain import launch as launches
from muster.domain import node as nodes
from muster.domain import operation as operations
from muster.domain.errors import CapReached, Conflict, LeaseLost
from muster.domain.ids import NodeId, OperationId
from muster.domain.launch import Launch, LaunchState
from muster.domain.lifecycle import LIVE, NodeState
from muster.domain.matching import fits
from muster.domain.node import Node, NodeChange
from muster.domain.operation import Fence, Operation, Status
from muster.domain.reasons import Reason
from muster.ports.store import Beat
from muster.stores.sql import open_sqlite
from tests.contracts.store_contract.bookkeeping import assert_log_rebuilds
from tests.contracts.store_contract.records import DEMAND, EVERY_STATE, Records
from tests.stores.ids import CountingIds

T = TypeVar("T")
CAP = 6
TOTAL_CAP = 9


def now_(work: Coroutine[Any, Any, T]) -> T:
    try:
        work.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    raise AssertionError("an inline store suspended")


class StoreModel(RuleBasedStateMachine):
    """Records as the model believes them; every rule does one write and says what must come of it."""

    fences = Bundle("fences")
    """Fences as they were once given: any of them may be old by the time it is used."""
    reads = Bundle("reads")
    """Nodes as they were once read: any of them may be stale by the time it is written."""

    @initialize()
    def open(self) -> None:
        self.store = open_sqlite(":memory:", ids=CountingIds(), inline=True)
        self.records = Records(self.store)
        self.time = 1000.0
        self.operations: dict[OperationId, Operation] = {}
        self.launches: dict[str, Launch] = {}
        self.nodes: dict[NodeId, Node] = {}
        self.seen: dict[NodeId, float] = {}

    def teardown(self) -> None:
        if hasattr(self, "store"):
            now_(assert_log_rebuilds(self.store))
            now_(self.store.close())

    # --- operations -------------------------------------------------------------------------------

    @rule(target=fences, until=st.integers(0, 30))
    def submit(self, until: int) -> Fence:
        self.time += 1
        draft = self.records.draft(now=self.time)
        draft = replace(draft, lease_owner="a", lease_until=self.time + until, epoch=1)
        now_(self.store.submit(draft))
        self.operations[draft.id] = draft
        return draft.fence

    @rule(target=fences, wait=st.integers(0, 40))
    def take_over_one(self, wait: int) -> Fence:
        self.time += wait
        due = [each for each in self.operations.values() if not each.ended and each.lease_until <= self.time]
        taken = now_(self.store.lease("b", now=self.time, until=self.time + 20, limit=1))
        due.sort(key=lambda each: (each.created_at, each.id))
        assert [each.id for each in taken] == [each.id for each in due[:1]]
        for each in taken:
            before = self.operations[each.id]
            expected = replace(before, lease_owner="b", lease_until=self.time + 20, epoch=before.epoch + 1)
            assert each == expected
            self.operations[each.id] = each
            return each.fence
        return Fence(operation_id=OperationId("op-none"), epoch=1)

    @rule(fence=fences, status=st.sampled_from([Status.FAILED, Status.SUCCEEDED]))
    def end(self, fence: Fence, status: Status) -> None:
        operation = self.operations.get(fence.operation_id)
        if operation is None or operation.ended:
            return
        self.time += 1
        change = operations.ended(operation, status, now=self.time, progress=None)
        if self._holds(fence):
            self.operations[operation.id] = now_(self.store.write_operation(change, fence=fence))
            assert self.operations[operation.id] == change.after
        else:
            with pytest.raises(LeaseLost):
                now_(self.store.write_operation(change, fence=fence))

    # --- launches ---------------------------------------------------------------------------------

    @rule(fence=fences, size=st.integers(1, 4), template=st.sampled_from(["web", "api"]))
    def reserve(self, fence: Fence, size: int, template: str) -> None:
        operation = self.operations.get(fence.operation_id)
        if operation is None:
            return
        plan = self.records.plan(
            operation, ordinal=len(self.launches) + 1, size=size, template=template, now=self.time
        )
        work = self.store.reserve(plan, cap=CAP, total_cap=TOTAL_CAP, fence=fence)
        if not self._holds(fence):
            with pytest.raises(LeaseLost):
                now_(work)
        elif self._used(template) + size > CAP or self._used(None) + size > TOTAL_CAP:
            with pytest.raises(CapReached):
                now_(work)
        else:
            self.launches[plan.id] = now_(work)

    @rule(data=st.data(), found=st.integers(0, 4), keep_open=st.booleans())
    def answer(self, data: st.DataObject, found: int, keep_open: bool) -> None:
        opened = [each for each in self.launches.values() if each.open]
        if not opened:
            return
        launch = data.draw(st.sampled_from(opened))
        if launch.state is LaunchState.PLANNED:
            after = launches.calling(launch, now=self.time)
            self.launches[launch.id] = now_(self.store.write_launch(launch, after, fence=None))
            return
        found = min(found, launch.count - launch.adopted)
        machines = [self.records.machine(launch, now=self.time) for _ in range(found)]
        adopted = launch.adopted + found
        if keep_open:
            after = replace(launch, version=launch.version + 1, adopted=adopted)
        else:
            after = launches.settled(launch, now=self.time, adopted=adopted)
        self.launches[launch.id] = now_(self.store.settle(launch, after, machines, fence=None, now=self.time))
        self.nodes.update((node.id, node) for node in machines)

    # --- nodes ------------------------------------------------------------------------------------

    @rule(target=reads, data=st.data())
    def read(self, data: st.DataObject) -> Node | None:
        if not self.nodes:
            return None
        node_id = data.draw(st.sampled_from(sorted(self.nodes)))
        node = now_(self.store.node(node_id))
        assert node == self.nodes[node_id]
        return node

    @rule(node=reads)
    def move_on(self, node: Node | None) -> None:
        """Whatever comes next in the life of a node."""
        if node is None:
            return
        self.time += 1
        deadline = self.time + 50
        if node.state is NodeState.CREATED and not node.up:
            self._write(nodes.booted(node, now=self.time, deadline_at=deadline))
        elif (
            node.assignment_id and not node.attached and node.state in (NodeState.CREATED, NodeState.CLAIMED)
        ):
            self._write(nodes.attached(node, now=self.time, deadline_at=deadline))
        elif node.state in (NodeState.CREATED, NodeState.CLAIMED):
            self._write(nodes.release(node, now=self.time, deadline_at=deadline))
        elif node.state is NodeState.RELEASING:
            self._write(nodes.clean(node, now=self.time, deadline_at=deadline))
        elif node.state is NodeState.TERMINATING:
            self._write(nodes.confirm_gone(node, now=self.time))

    @rule(node=consumes(reads))
    def condemn(self, node: Node | None) -> None:
        if node is not None and node.state in LIVE:
            self._write(nodes.condemn(node, now=self.time, reason=Reason.OPERATOR))

    @rule(data=st.data(), ago=st.integers(0, 30))
    def beat(self, data: st.DataObject, ago: int) -> None:
        if not self.nodes:
            return
        node = self.nodes[data.draw(st.sampled_from(sorted(self.nodes)))]
        now_(self.store.record_beats([Beat(node_id=node.id, seen_at=self.time - ago)]))
        if node.state is not NodeState.TERMINATED:
            self.seen[node.id] = max(self.seen.get(node.id, 0.0), self.time - ago)

    @rule(fence=fences, size=st.integers(1, 3))
    def claim(self, fence: Fence, size: int) -> None:
        operation = self.operations.get(fence.operation_id)
        if operation is None:
            return
        since = self.time - 15
        work = self.store.claim(
            DEMAND,
            self.records.bindings(operation, size),
            fence=fence,
            seen_since=since,
            now=self.time,
            deadline_at=self.time + 30,
        )
        if not self._holds(fence):
            with pytest.raises(LeaseLost):
                now_(work)
            return
        fitting = [
            node
            for node in self.nodes.values()
            if fits(node, DEMAND, seen_at=self.seen.get(node.id), seen_since=since, now=self.time)
        ]
        fitting.sort(key=lambda node: (node.last_owner != DEMAND.owner, -node.entered_at, node.id))
        taken = now_(work)
        assert [node.id for node in taken] == [node.id for node in fitting[:size]]
        self.nodes.update((node.id, node) for node in taken)

    # --- what must hold ---------------------------------------------------------------------------

    @invariant()
    def the_store_holds_what_the_model_believes(self) -> None:
        if not hasattr(self, "store"):
            return
        page = now_(self.store.nodes(states=EVERY_STATE, template=None, after=None, limit=500))
        assert {node.id: node for node in page.items} == self.nodes
        for launch in self.launches.values():
            assert now_(self.store.launch(launch.id)) == launch
        for operation in self.operations.values():
            assert now_(self.store.operation(operation.id)) == operation
        alive = [each for each, node in self.nodes.items() if node.state is not NodeState.TERMINATED]
        seen = {each: at for each, at in self.seen.items() if each in alive}
        assert now_(self.store.last_seen(sorted(self.nodes))) == seen

    @invariant()
    def the_counters_are_exact_and_under_the_caps(self) -> None:
        if not hasattr(self, "store"):
            return
        for template in ("web", "api"):
            usage = now_(self.store.usage(template))
            assert (usage.template, usage.total) == (self._used(template), self._used(None))
            assert usage.template <= CAP and usage.total <= TOTAL_CAP
        assert now_(self.store.audit(now=self.time)) == []

    # --- the model --------------------------------------------------------------------------------

    def _used(self, template: str | None) -> int:
        live = [each for each in self.nodes.values() if each.state is not NodeState.TERMINATED]
        held = sum(each.held for each in self.launches.values() if template in (None, each.template))
        return held + sum(template in (None, each.template) for each in live)

    def _holds(self, fence: Fence) -> bool:
        operation = self.operations.get(fence.operation_id)
        return operation is not None and operation.epoch == fence.epoch

    def _write(self, change: NodeChange) -> None:
        assert change.before is not None
        if self.nodes[change.after.id].version != change.before.version:
            with pytest.raises(Conflict):
                now_(self.store.apply(change))
            return
        self.nodes[change.after.id] = now_(self.store.apply(change))
        if change.guard is not None:
            moved = self.operations[change.guard.operation_id]
            self.operations[moved.id] = replace(moved, version=moved.version + 1)


TestStoreModel = StoreModel.TestCase
TestStoreModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
