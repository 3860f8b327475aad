"""Planted defects: each breaks one rule of the control plane, as a plausible mistake would.

Each function patches the real code through pytest's MonkeyPatch. `test_defects` shows that the simulation
finds every one of them.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from muster.controllers.node_health import LostNodes
from muster.controllers.orphans import Orphans
from muster.controllers.reaper import Reaper
from muster.domain import (
    deadlines,
    health,
    launch,
    lifecycle,
    node,
    operation,
    pool_plan,
    provision_decisions,
)
from muster.domain.deadlines import DeadlineContext, Extended, Overdue, Watch
from muster.domain.decisions import Finish
from muster.domain.errors import Conflict, StoreUnavailable
from muster.domain.health import Health, HealthSource
from muster.domain.ids import NodeId, OperationId
from muster.domain.lifecycle import Fact, NodeState, Verb
from muster.domain.node import Node, NodeChange, OperationGuard
from muster.domain.provision_decisions import Acquire, Action, Commit, RollBack, Situation
from muster.domain.reasons import Reason
from muster.enrolment import streams
from muster.enrolment.signals import Enrolment
from muster.operations.capacity import Capacity
from muster.operations.desk import OperationDesk
from muster.operations.failsafe import Failsafe
from muster.operations.launcher import Launcher
from muster.operations.provision import ProvisionHandler
from muster.ports.provider import LaunchRequest, Machine
from muster.ports.store import NodeView
from muster.stores.cache import CachedStore
from muster.stores.sql import SqlStore, claims, counters, guards, leases, liveness, operations, vitals
from muster.stores.sql.tx import Tx
from muster_simulation import agent
from muster_simulation.cloud.cloud import SimulatedCloud

Patch = pytest.MonkeyPatch


def a_held_node_is_never_ended(patch: Patch) -> None:
    judge = deadlines.judge

    def forgetful(node: Node, at: DeadlineContext) -> Overdue | Extended | None:
        return None if node.held else judge(node, at)

    patch.setattr(deadlines, "judge", forgetful)


def fencing_is_dropped(patch: Patch) -> None:
    patch.setattr(guards, "check_fence", lambda _tx, _fence: None)


def a_takeover_keeps_the_epoch(patch: Patch) -> None:
    for name in ("LEASE", "ABANDONED"):
        statement = getattr(leases, name).replace("epoch = epoch + 1", "epoch = max(epoch, 1)")
        patch.setattr(leases, name, statement)


def the_reservation_is_skipped(patch: Patch) -> None:
    def take(tx: Tx, template: str, count: int, *, cap: int, total_cap: int) -> None:
        counters.add(tx, template, count)

    patch.setattr(counters, "take", take)


def a_claim_ignores_the_state(patch: Patch) -> None:
    real = claims.statement

    def statement(*args: Any) -> str:
        return real(*args).replace("state = 'idle'", "state IN ('idle', 'claimed')")

    patch.setattr(claims, "statement", statement)
    patch.setattr(claims, "_ANY_IDLE", "SELECT 1")


def a_claim_ignores_the_owner(patch: Patch) -> None:
    real = claims.statement

    def statement(*args: Any) -> str:
        return real(*args).replace("n.last_owner IS NULL", "1 = 1")

    patch.setattr(claims, "statement", statement)


def the_minimum_is_kept_for_the_first_operation(patch: Patch) -> None:
    patch.setattr(pool_plan, "reuse_allows", lambda *_: True)


def the_record_ends_with_the_call(patch: Patch) -> None:
    async def confirmed(self: Reaper, provider: Any, doomed: Node, known: Any) -> bool:
        await self._store.apply(node.confirm_gone(doomed, now=self._ports.clock.now()))
        return False

    patch.setattr(Reaper, "_confirmed", confirmed)


def not_found_is_gone_at_once(patch: Patch) -> None:
    real = Reaper._confirmed

    async def confirmed(self: Reaper, provider: Any, doomed: Node, known: Any) -> bool:
        self._seen[doomed.id] = True
        return await real(self, provider, doomed, known)

    patch.setattr(Reaper, "_confirmed", confirmed)


def a_signal_counts_without_its_assignment(patch: Patch) -> None:
    def awaits(_self: Enrolment, waiting: Node, _assignment: Any) -> bool:
        pending = (
            waiting.state in (NodeState.CREATED, NodeState.CLAIMED) and waiting.assignment_id is not None
        )
        return pending and waiting.up and not waiting.attached

    patch.setattr(Enrolment, "_awaits", awaits)


def any_detach_counts_for_the_present_assignment(patch: Patch) -> None:
    real = Enrolment._change

    async def change(self: Enrolment, at: NodeView, report: Any) -> Any:
        if report.detached is not None and at.node.assignment_id is not None:
            report = replace(report, detached=at.node.assignment_id)
        return await real(self, at, report)

    patch.setattr(Enrolment, "_change", change)


def a_short_find_is_the_whole_truth(patch: Patch) -> None:
    patch.setattr(launch, "may_surprise", lambda _launch, **_: False)


def room_is_freed_while_the_call_is_open(patch: Patch) -> None:
    def undo(at: Situation, verdict: Any) -> Action:
        opened = tuple(each for each in at.launches if each.open)
        if at.held or opened:
            return RollBack(nodes=tuple(at.held), launches=opened)
        status = operation.Status.FAILED
        return Finish(status=status, verdict=verdict)

    patch.setattr(provision_decisions, "_undo", undo)


def the_commit_does_not_wait_for_attached(patch: Patch) -> None:
    real = provision_decisions._gather

    def gather(at: Situation) -> Action:
        held = at.held
        if len(held) == at.request.count and all(each.up for each in held):
            return Commit(members=provision_decisions._members(held))
        return real(at)

    def hand_over(ready: Node, *, now: float, deadline_at: float | None) -> Any:
        assert ready.operation_id is not None
        moved = node._moved(ready, Verb.HAND_OVER, NodeState.RUNNING, now=now, deadline_at=deadline_at)
        return replace(moved, guard=OperationGuard(operation_id=ready.operation_id, committed=True))

    patch.setattr(provision_decisions, "_gather", gather)
    patch.setattr(node, "hand_over", hand_over)


def resuming_forgets_what_is_held(patch: Patch) -> None:
    real = provision_decisions._gather

    def gather(at: Situation) -> Action:
        action = real(at)
        if isinstance(action, Acquire):
            return replace(action, count=at.request.count)
        return action

    patch.setattr(provision_decisions, "_gather", gather)


def every_repeat_has_a_new_token(patch: Patch) -> None:
    real = Launcher._request

    async def request(self: Launcher, asked: Any) -> LaunchRequest:
        return replace(await real(self, asked), token=f"{asked.token}#{asked.calls}")

    patch.setattr(Launcher, "_request", request)


def foreign_machines_are_orphans_too(patch: Patch) -> None:
    def list_all(self: SimulatedCloud, _installation_id: str, *, after: str, limit: int) -> Sequence[Machine]:
        ours = real(self, _installation_id, after=after, limit=limit)
        others = real(self, "another", after=after, limit=limit)
        merged = sorted([*ours, *others], key=lambda machine: machine.id)[:limit]
        return [replace(machine, installation_id=_installation_id) for machine in merged]

    real = SimulatedCloud.list
    patch.setattr(SimulatedCloud, "list", list_all)


def claims_are_held_in_the_queue(patch: Patch) -> None:
    real = ProvisionHandler._return_node

    async def let_go(self: ProvisionHandler, held: Node, at: Any, reason: Any, driven: Any) -> None:
        if reason is not Reason.CAP_REACHED or at.operation.verdict is not None:
            await real(self, held, at, reason, driven)

    patch.setattr(ProvisionHandler, "_return_node", let_go)


def a_loss_does_not_move_the_operation(patch: Patch) -> None:
    real = guards.check_operation

    def check_operation(tx: Tx, guard: OperationGuard | None) -> None:
        if guard is not None and guard.committed:
            real(tx, guard)

    patch.setattr(guards, "check_operation", check_operation)


def a_cancel_beats_the_commit(patch: Patch) -> None:
    real_cancel = operation.cancel_requested
    real_decide = provision_decisions.decide

    def cancel_requested(asked: Any, *, now: float) -> Any:
        if asked.committed and not asked.ended:
            change = real_cancel(replace(asked, committed_at=None), now=now)
            return change and replace(change, before=asked)
        return real_cancel(asked, now=now)

    def decide(at: Situation) -> Action:
        if at.operation.cancel_requested_at is not None:
            return provision_decisions._undo(at, provision_decisions.CANCELLED)
        return real_decide(at)

    patch.setattr("muster.operations.submission.cancel_requested", cancel_requested)
    patch.setattr("muster.operations.provision.decide", decide)


def room_is_not_given_back(patch: Patch) -> None:
    real = counters.add

    def add(tx: Tx, template: str, change: int) -> None:
        if change > 0:
            real(tx, template, change)

    patch.setattr(counters, "add", add)


def a_lost_answer_is_acknowledged(patch: Patch) -> None:
    real = OperationDesk._submit

    async def submit(self: OperationDesk, kind: Any, request: Any, deadline: Any, **rest: Any) -> Any:
        try:
            return await real(self, kind, request, deadline, **rest)
        except StoreUnavailable:
            now = self._ports.clock.now()
            return operation.Operation(
                id=OperationId(self._ports.ids.new("op")),
                kind=kind,
                request=request,
                template=None,
                run=rest.get("run"),
                created_at=now,
                updated_at=now,
                deadline_at=now + deadline.seconds,
                deadline_source=deadline.source,
            )

    patch.setattr(OperationDesk, "_submit", submit)


def the_head_of_the_queue_is_never_resumed(patch: Patch) -> None:
    async def suffices(_self: Capacity, *_args: Any, **_rest: Any) -> bool:
        return False

    patch.setattr(Capacity, "suffices", suffices)


def orphans_are_left_alone(patch: Patch) -> None:
    async def reconcile(_self: Orphans) -> None:
        return None

    patch.setattr(Orphans, "reconcile", reconcile)


def the_commit_ignores_heartbeats(patch: Patch) -> None:
    patch.setattr(provision_decisions, "_fresh", lambda _at, _node: True)
    patch.setattr(operations, "check_freshness", lambda _tx, _change, _clock: None)


def attaching_counts_as_a_heartbeat(patch: Patch) -> None:
    def fresh(at: Situation, each: Node) -> bool:
        seen = max(at.seen.get(each.id, 0.0), each.attached_at or 0.0)
        return at.now - seen <= at.limits.stale_after

    patch.setattr(provision_decisions, "_fresh", fresh)
    patch.setattr(operations, "check_freshness", lambda _tx, _change, _clock: None)


def the_sweep_ignores_advance_at_the_deadline(patch: Patch) -> None:
    real = deadlines._judge_boot

    def judge_boot(booting: Node, at: DeadlineContext) -> Overdue | Extended | None:
        found = real(booting, at)
        if isinstance(found, Extended):
            return Overdue(reason=Reason.BOOT_TIMEOUT, fails=True)
        return found

    patch.setattr(deadlines, "_judge_boot", judge_boot)


def an_extension_has_no_ceiling(patch: Patch) -> None:
    patch.setattr(deadlines, "max_boot", lambda _template, _limits: 36_000.0)


def a_stall_counts_from_the_join(patch: Patch) -> None:
    real = deadlines._judge_boot

    def judge_boot(booting: Node, at: DeadlineContext) -> Overdue | Extended | None:
        return real(booting, replace(at, advanced_at=booting.joined_at))

    patch.setattr(deadlines, "_judge_boot", judge_boot)
    patch.setattr(liveness, "check_still", lambda _tx, _node_id, _since: None)


def a_boot_that_stands_still_is_not_looked_for(patch: Patch) -> None:
    async def stalled(_self: SqlStore, **_: Any) -> Sequence[Node]:
        return ()

    patch.setattr(SqlStore, "stalled", stalled)


def an_advance_after_the_look_does_not_spare(patch: Patch) -> None:
    patch.setattr(liveness, "check_still", lambda _tx, _node_id, _since: None)


def silence_counts_while_no_replica_watched(patch: Patch) -> None:
    real = health.judge

    def judge(vitals: Any, *, now: float, observing_since: float, limits: Any) -> Any:
        return real(vitals, now=now, observing_since=0.0, limits=limits)

    patch.setattr(health, "judge", judge)


def starting_takes_a_ready_node_back(patch: Patch) -> None:
    real = health._still_starting

    def still_starting(vitals: Any, **rest: Any) -> Any:
        if vitals.health is Health.READY and vitals.said is Health.STARTING:
            return health._Verdict(health=Health.STARTING, source=HealthSource.HEARTBEAT)
        return real(vitals, **rest)

    patch.setattr(health, "_still_starting", still_starting)
    patch.setattr(liveness, "_SAID", "excluded.said IS NOT NULL")
    patch.setattr(liveness, "_telling_beat", liveness._telling_beat.__wrapped__)  # which remembers it


def the_lost_are_counted_without_the_watch(patch: Patch) -> None:
    async def condemn(self: LostNodes, state: NodeState, patience: float) -> None:
        now = self._ports.clock.now()
        for each in await self._store.offline(states=(state,), since_before=now - patience, limit=500):
            with suppress(Conflict):
                await self._store.apply(node.condemn(each, now=now, reason=Reason.HEARTBEAT_LOST))

    patch.setattr(LostNodes, "_condemn", condemn)


def a_deadline_passes_while_no_replica_watched(patch: Patch) -> None:
    patch.setattr(Watch, "due", lambda _self, deadline_at, _limits: deadline_at)


def the_grace_never_ends(patch: Patch) -> None:
    def due(self: Watch, deadline_at: float, _limits: Any) -> float:
        return deadline_at if self.away_from is None else deadline_at + 36_000.0

    patch.setattr(Watch, "due", due)


def the_rescued_go_back_to_their_operation(patch: Patch) -> None:
    back = (Verb.RELEASE, NodeState.FAILED, NodeState.CREATED)

    def rescue(late: Node, *, now: float, deadline_at: float, **_: Any) -> Any:
        moved = node._moved(late, Verb.RELEASE, NodeState.CREATED, now=now, deadline_at=deadline_at)
        return replace(moved, after=replace(moved.after, booted_at=now), told_as="rescued", guard=None)

    patch.setattr(lifecycle, "ALLOWED", lifecycle.ALLOWED | {back})
    patch.setattr(node, "rescue", rescue)


def the_dead_can_be_claimed(patch: Patch) -> None:
    real = claims.statement

    def statement(*args: Any) -> str:
        return real(*args).replace(":seen_since", "0")

    patch.setattr(claims, "statement", statement)


def the_living_stay_offline(patch: Patch) -> None:
    patch.setattr(vitals, "SUSPECTS", vitals.SUSPECTS.replace("health = 'offline' AND", "1 = 0 AND"))


def an_unforeseen_error_is_tried_for_ever(patch: Patch) -> None:
    async def erred(_self: Failsafe, *_: Any) -> bool:
        return False

    patch.setattr(Failsafe, "erred", erred)


def what_a_bug_stops_keeps_its_nodes(patch: Patch) -> None:
    async def give_back(_self: Failsafe, *_: Any) -> None:
        return None

    patch.setattr(Failsafe, "_give_back", give_back)


def a_beat_after_the_look_does_not_spare(patch: Patch) -> None:
    patch.setattr(liveness, "check_silent", lambda _tx, _node_id, _since: None)


def a_memory_misses_commits(patch: Patch) -> None:
    patch.setattr(CachedStore, "saw", lambda _self, _written: None)
    patch.setattr(CachedStore, "_forget_records", lambda _self: None)


def a_memory_misses_a_revocation(patch: Patch) -> None:
    """The node of a token is remembered though the node was given another token."""

    async def admit(self: CachedStore, change: Any, node_id: Any, **given: Any) -> None:
        await self._inner.admit(change, node_id, **given)

    patch.setattr(CachedStore, "admit", admit)
    patch.setattr(CachedStore, "_forget_records", lambda _self: None)


def a_revocation_is_noticed_late(patch: Patch) -> None:
    """Where replicas share a store, each remembers the node of a token."""
    known: dict[str, NodeId] = {}

    async def node_for_token(self: CachedStore, token_hash: str) -> NodeId | None:
        found = known.get(token_hash) or await self._inner.node_for_token(token_hash)
        if found is not None:
            known[token_hash] = found
        return found

    patch.setattr(CachedStore, "node_for_token", node_for_token)


def a_lost_push_is_never_made_up_for(patch: Patch) -> None:
    """A stream speaks only when something changed, and the agent waits for ever on a silent one."""
    patch.setattr(streams, "SILENT_MOST", 1e9)
    patch.setattr(agent, "SILENCE", 1e9)


def a_reordered_report_is_believed(patch: Patch) -> None:
    """An `attached` that arrives after the node was told to detach is taken for a newer one."""
    real, attach = Enrolment._awaits, node.attached

    def awaits(self: Enrolment, waiting: Node, assignment: Any) -> bool:
        if waiting.state is NodeState.RELEASING and waiting.assignment_id == assignment:
            return (waiting.attached_at or 0.0) <= waiting.entered_at
        return real(self, waiting, assignment)

    def attached(waiting: Node, *, now: float, deadline_at: float) -> NodeChange:
        if waiting.state is not NodeState.RELEASING:
            return attach(waiting, now=now, deadline_at=deadline_at)
        after = replace(waiting, version=waiting.version + 1, attached_at=now)
        return NodeChange(name=Fact.ATTACHED, before=waiting, after=after, at=now)

    patch.setattr(Enrolment, "_awaits", awaits)
    patch.setattr(node, "attached", attached)
