"""Each invariant can break: a crafted history breaks exactly that one."""

from typing import Any

import pytest

from muster.domain.events import Entity
from muster.domain.ids import AssignmentId, OperationId
from muster.domain.requests import ReleaseRequest
from muster.domain.template import TemplateSpec
from muster_simulation.invariants import Broken
from muster_simulation.invariants.final_rules import remains
from muster_simulation.invariants.health_rules import SILENCE
from muster_simulation.invariants.machine_rules import TOLD_TO_GO
from muster_simulation.invariants.queue_rules import STARVED
from tests.simulation.crafted_history import UNBOUND, CraftedHistory, attach, commit


@pytest.fixture
def history() -> CraftedHistory:
    """One provision with one node that has booted; nothing is broken so far."""
    made = CraftedHistory()
    made.has_operation()
    made.has_launch()
    made.has_machine()
    made.has_node()
    assert made.broken is None
    return made


def test_a_whole_life_breaks_nothing(history: CraftedHistory) -> None:
    commit(history)
    history.node("hand_over", state="running")
    history.operation("ended", status="succeeded", ended_at=history.now)
    history.node("release", state="releasing")
    history.agents["i-1"].attached = None
    unbound = dict.fromkeys(("operation_id", "assignment_id", "run", "owner", "attached_at"))
    history.node("clean", state="idle", last_owner="me", **unbound)
    history.node("condemn", state="terminating")
    history.judge.called("terminate", ["i-1"])
    history.ledger.close(history.ledger.live()[0], now=history.now, cause="terminated")
    history.node("confirm_gone", state="terminated")
    history.write(Entity.LAUNCH, "op-1.1", "settled", state="settled", adopted=1, closed_at=history.now)
    assert history.broken is None
    assert remains(history.judge.context) == ""


def test_an_edge_outside_the_table(history: CraftedHistory) -> None:
    history.node("clean", state="idle")
    assert history.broken == "only_edges_of_the_table"


def test_a_version_that_jumps(history: CraftedHistory) -> None:
    history.versions["node-1"] = 7
    history.node("joined")
    assert history.broken == "feed_is_complete"


def test_a_second_assignment(history: CraftedHistory) -> None:
    history.node("attached", assignment_id="as-2")
    assert history.broken == "one_assignment_per_node"


def test_an_assignment_used_again(history: CraftedHistory) -> None:
    history.has_machine("i-2")
    history.has_node("node-2", machine_id="i-2")
    assert history.broken == "assignments_are_never_used_again"


def test_an_idle_node_that_is_bound(history: CraftedHistory) -> None:
    history.node("pool_in", state="idle")
    assert history.broken == "idle_nodes_are_unbound"


def test_an_idle_node_whose_agent_is_attached(history: CraftedHistory) -> None:
    history.agents["i-1"].attached = AssignmentId("as-1")
    unbound = dict.fromkeys(("operation_id", "assignment_id", "run", "owner", "attached_at"))
    history.node("pool_in", state="idle", **unbound)
    assert history.broken == "idle_nodes_are_detached"


def test_a_signal_of_another_assignment_that_counts(history: CraftedHistory) -> None:
    history.agents["i-1"].attached = AssignmentId("as-0")
    history.node("attached", attached_at=history.now)
    assert history.broken == "attached_is_attached"


def test_a_hand_over_before_the_commit(history: CraftedHistory) -> None:
    attach(history)
    history.node("hand_over", state="running")
    assert history.broken == "handed_over_after_commit"


def test_a_hand_over_to_two_runs(history: CraftedHistory) -> None:
    commit(history)
    history.agents["i-1"].attached = AssignmentId("as-0")
    history.node("hand_over", state="running")
    assert history.broken == "one_run_at_a_time"


def test_a_committed_node_that_is_judged(history: CraftedHistory) -> None:
    commit(history)
    history.node("condemn", state="terminating")
    assert history.broken == "committed_nodes_only_roll_forward"


def test_a_terminated_node_whose_machine_lives(history: CraftedHistory) -> None:
    history.node("condemn", state="terminating")
    history.node("confirm_gone", state="terminated")
    assert history.broken == "terminated_is_gone"


def test_a_claim_for_an_operation_that_queues(history: CraftedHistory) -> None:
    history.has_operation("op-2")
    unbound = dict.fromkeys(("operation_id", "assignment_id", "run", "owner", "attached_at"))
    history.node("pool_in", state="idle", **unbound)
    history.write(Entity.OPERATION, "op-2", "queued", status="queued", queued_since=history.now)
    bound = {"operation_id": "op-2", "assignment_id": "as-2", "owner": "me"}
    history.node("claim", state="claimed", **bound)
    assert history.broken == "the_queue_holds_nothing"


def test_a_claim_across_owners(history: CraftedHistory) -> None:
    unbound = dict.fromkeys(("operation_id", "assignment_id", "run", "owner", "attached_at"))
    history.node("pool_in", state="idle", last_owner="you", **unbound)
    bound = {"operation_id": "op-1", "assignment_id": "as-2", "owner": "me"}
    history.node("claim", state="claimed", **bound)
    assert history.broken == "reuse_is_respected"


def test_a_minimum_that_is_kept_for_one_owner(history: CraftedHistory) -> None:
    history.node("pool_in", state="idle", last_owner="you", **UNBOUND)
    history.node("extend", deadline_at=history.now + 900.0, deadline_source="min_idle")
    assert history.broken == "the_minimum_is_for_anybody"


def test_a_node_taken_for_an_operation_that_has_ended() -> None:
    history = CraftedHistory()
    history.has_operation()
    history.has_launch()
    history.has_machine()
    history.operation("ended", status="failed", ended_at=history.now, verdict={"reason": "internal"})
    assert history.broken is None
    history.has_node()
    assert history.broken == "nobody_takes_for_the_ended"


@pytest.mark.parametrize(("bugs", "broken"), [({}, True), ({"op-1": "view"}, False)])
def test_an_internal_error_of_an_operation_that_met_no_bug(bugs: dict[str, str], broken: bool) -> None:
    history = CraftedHistory(bugs=bugs)
    history.has_operation()
    history.operation("ended", status="failed", ended_at=history.now, verdict={"reason": "internal"})
    assert history.broken == ("a_bug_stops_no_other_operation" if broken else None)


def test_a_second_node_for_an_operation_that_wants_one(history: CraftedHistory) -> None:
    history.has_machine("i-2")
    history.has_node("node-2", machine_id="i-2", assignment_id=AssignmentId("as-2"))
    assert history.broken == "nobody_takes_too_much"


def test_a_second_node_after_the_first_was_lost_is_fine(history: CraftedHistory) -> None:
    history.node("condemn", state="terminating", reason="boot_timeout")
    history.has_machine("i-2")
    history.has_node("node-2", machine_id="i-2", assignment_id=AssignmentId("as-2"))
    assert history.broken is None


def claimed(history: CraftedHistory) -> None:
    """The history's node was warm, and is now claimed by its operation."""
    history.node("pool_in", state="idle", **UNBOUND)
    history.node("claim", state="claimed", operation_id="op-1", assignment_id="as-2", owner="me", run="run-1")
    assert history.broken is None


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"verdict": {"reason": "quota", "message": ""}}, "quota"),
        ({"cancel_requested_at": 1000.0}, "cancelled"),
    ],
    ids=["failed", "cancelled"],
)
def test_a_warm_node_thrown_away_by_a_roll_back(
    history: CraftedHistory, fields: dict[str, Any], reason: str
) -> None:
    claimed(history)
    history.operation("failing", **fields)
    history.node("condemn", state="terminating", reason=reason)
    assert history.broken == "warm_nodes_return"


def test_a_warm_node_with_a_fault_of_its_own_may_be_thrown_away(history: CraftedHistory) -> None:
    claimed(history)
    history.operation("failing", verdict={"reason": "quota", "message": ""})
    history.node("condemn", state="terminating", reason="heartbeat_lost")
    assert history.broken is None


def in_line(history: CraftedHistory, *operation_ids: str) -> None:
    """Provisions that wait in the queue, the oldest first."""
    for operation_id in operation_ids:
        history.now += 1.0
        history.has_operation(operation_id)
        history.write(Entity.OPERATION, operation_id, "queued", status="queued", queued_since=history.now)
    assert history.broken is None


def _pass(history: CraftedHistory, seconds: float, *, calm: bool = True) -> None:
    for _ in range(int(seconds / 30.0)):
        history.now += 30.0
        history.judge.tick(30.0, calm=calm)


def test_a_head_of_the_queue_that_stays_although_it_fits() -> None:
    history = CraftedHistory()
    history.judge.queues.total_cap = 3
    in_line(history, "op-1", "op-2")
    _pass(history, 600.0, calm=False)
    assert history.broken is None
    _pass(history, STARVED)
    assert history.broken is None
    _pass(history, 60.0)
    assert history.broken == "the_head_of_the_queue_goes_on"


def test_a_head_of_the_queue_waits_while_there_is_no_room_or_while_it_tries() -> None:
    history = CraftedHistory()
    history.judge.queues.total_cap = 0
    in_line(history, "op-1", "op-2")
    _pass(history, 300.0)
    assert history.broken is None
    history.judge.queues.total_cap = 3
    history.operation("resumed", status="running")
    _pass(history, 300.0)
    assert history.broken is None


def test_one_that_goes_on_before_an_older_one() -> None:
    history = CraftedHistory()
    in_line(history, "op-1", "op-2")
    history.write(Entity.OPERATION, "op-2", "resumed", status="running")
    assert history.broken == "the_queue_is_fair"


def test_the_queue_moves_from_its_head() -> None:
    history = CraftedHistory()
    in_line(history, "op-1", "op-2", "op-3")
    history.write(Entity.OPERATION, "op-1", "resumed", status="running")
    history.write(Entity.OPERATION, "op-1", "progressed", queued_since=None)
    verdict = {"reason": "cap_reached", "message": ""}
    history.write(
        Entity.OPERATION,
        "op-2",
        "ended",
        status="failed",
        queued_since=None,
        ended_at=history.now,
        verdict=verdict,
    )
    history.write(Entity.OPERATION, "op-3", "resumed", status="running")
    assert history.broken is None


@pytest.mark.parametrize(
    ("meant", "broken"),
    [(None, "released_is_released"), (("as-1",), "released_is_released"), (("as-9",), None)],
    ids=["all", "this one", "another one"],
)
def test_a_release_that_says_it_is_done_while_a_node_runs(
    history: CraftedHistory, meant: tuple[str, ...] | None, broken: str | None
) -> None:
    commit(history)
    history.node("hand_over", state="running")
    history.operation("ended", status="succeeded", ended_at=history.now)
    assignments = None if meant is None else tuple(AssignmentId(each) for each in meant)
    history.has_release("op-2", ReleaseRequest(operation_id=OperationId("op-1"), assignment_ids=assignments))
    assert history.broken is None
    history.write(Entity.OPERATION, "op-2", "ended", status="succeeded", ended_at=history.now)
    assert history.broken == broken


def test_a_release_that_failed_may_leave_a_node(history: CraftedHistory) -> None:
    commit(history)
    history.node("hand_over", state="running")
    history.operation("ended", status="succeeded", ended_at=history.now)
    history.has_release("op-2", ReleaseRequest(operation_id=OperationId("op-1")))
    verdict = {"reason": "release_timeout", "message": ""}
    history.write(Entity.OPERATION, "op-2", "ended", status="failed", ended_at=history.now, verdict=verdict)
    assert history.broken is None


def test_a_claim_of_a_revision_that_is_not_the_current_one(history: CraftedHistory) -> None:
    history.node("pool_in", state="idle", **UNBOUND)
    newer = TemplateSpec(name="ci", provider="simulated", max_nodes=2, boot_script="echo newer")
    history.template(newer)
    history.node("claim", state="claimed", operation_id="op-1", assignment_id="as-2", owner="me", run="run-1")
    assert history.broken == "claims_are_current"


def test_an_operation_that_queues_with_full_hands(history: CraftedHistory) -> None:
    history.operation("queued", status="queued", queued_since=history.now)
    assert history.broken == "the_queue_holds_nothing"


def test_a_commit_of_fewer_than_asked_for(history: CraftedHistory) -> None:
    history.operation("committed", committed_at=history.now, members=[])
    assert history.broken == "all_or_nothing"


def test_a_commit_of_a_node_that_is_not_attached(history: CraftedHistory) -> None:
    members = [{"node_id": "node-1", "assignment_id": "as-1"}]
    history.operation("committed", committed_at=history.now, members=members)
    assert history.broken == "all_attached_at_commit"


def test_a_commit_of_a_node_of_another_kind() -> None:
    history = CraftedHistory()
    history.has_operation()
    history.has_launch()
    history.has_machine()
    history.has_node(owner="you")
    commit(history)
    assert history.broken == "members_are_what_was_asked_for"


def test_a_commit_of_a_machine_that_is_long_gone(history: CraftedHistory) -> None:
    attach(history)
    history.ledger.close(history.ledger.live()[0], now=history.now, cause="died")
    del history.agents["i-1"]
    history.now += SILENCE + 0.1
    history.operation(
        "committed", committed_at=history.now, members=[{"node_id": "node-1", "assignment_id": "as-1"}]
    )
    assert history.broken == "all_alive_at_commit"


def test_a_failure_that_leaves_a_node(history: CraftedHistory) -> None:
    verdict = {"reason": "internal", "message": ""}
    history.operation("ended", status="failed", ended_at=history.now, verdict=verdict)
    assert history.broken == "an_end_leaves_nothing"


def test_a_failure_without_a_reason() -> None:
    history = CraftedHistory()
    history.has_operation()
    history.operation("ended", status="failed", ended_at=history.now)
    assert history.broken == "failures_say_why"


def test_a_success_without_a_commit() -> None:
    history = CraftedHistory()
    history.has_operation()
    history.operation("ended", status="succeeded", ended_at=history.now)
    assert history.broken == "succeeded_is_committed"


def test_a_write_after_the_end() -> None:
    history = CraftedHistory()
    history.has_operation()
    history.operation("ended", status="failed", ended_at=history.now, verdict={"reason": "internal"})
    history.operation("progressed")
    assert history.broken == "ended_is_ended"


def test_progress_that_goes_back(history: CraftedHistory) -> None:
    history.operation("progressed", progress={"step": 3, "percent": 50.0})
    history.operation("progressed", progress={"step": 3, "percent": 49.0})
    assert history.broken == "progress_never_goes_back"


def test_two_operations_of_one_key() -> None:
    history = CraftedHistory()
    history.has_operation("op-1", idempotency_key="k")
    history.has_operation("op-2", idempotency_key="k")
    assert history.broken == "one_operation_per_key"


def test_an_acknowledged_operation_that_was_not_stored(history: CraftedHistory) -> None:
    history.judge.acknowledged("op-9", None)
    assert history.broken == "no_acknowledged_request_is_lost"


def test_a_reservation_beyond_the_cap(history: CraftedHistory) -> None:
    for number in range(2, 5):
        history.has_launch(f"op-1.{number}", called=False)
    assert history.broken == "caps_hold"


def test_machines_beyond_the_cap(history: CraftedHistory) -> None:
    for number in range(2, 4):
        history.has_machine(f"i-{number}")
    assert history.broken == "caps_hold"


def test_a_call_without_a_stored_launch(history: CraftedHistory) -> None:
    history.judge.called("launch", ["inst-1/op-9.1"])
    assert history.broken == "stored_before_called"


def test_a_usable_machine_of_a_call_made_after_its_launch_was_closed() -> None:
    history = CraftedHistory()
    history.has_operation()
    history.has_launch()
    history.write(Entity.LAUNCH, "op-1.1", "abandoned", state="abandoned", closed_at=history.now)
    history.now += 10.0
    history.has_machine()
    history.has_node()
    assert history.broken == "late_machines_are_never_usable"


def test_a_launch_that_comes_back(history: CraftedHistory) -> None:
    history.write(Entity.LAUNCH, "op-1.1", "settled", state="settled", closed_at=history.now)
    history.write(Entity.LAUNCH, "op-1.1", "calling", state="calling")
    assert history.broken == "only_edges_of_a_launch"


def test_an_end_for_a_machine_that_was_not_condemned(history: CraftedHistory) -> None:
    history.judge.called("terminate", ["i-1"])
    assert history.broken == "only_condemned_machines_end"


def test_an_end_for_a_foreign_machine(history: CraftedHistory) -> None:
    entry = history.has_machine("i-9", installation="inst-2")
    history.judge.called("terminate", ["i-9"])
    assert history.broken == "no_foreign_machine_is_touched"
    assert entry.terminate_calls == []


@pytest.mark.parametrize(
    ("cause", "broken"),
    [(TOLD_TO_GO, "no_wanted_machine_is_turned_away"), ("died", None)],
    ids=["told to go", "died"],
)
def test_a_machine_that_goes_while_its_node_is_wanted(
    history: CraftedHistory, cause: str, broken: str | None
) -> None:
    (entry,) = history.ledger.live()
    history.ledger.close(entry, now=history.now, cause=cause)
    history.judge.gone(entry)
    assert history.broken == broken


def test_a_condemned_machine_that_is_told_to_go(history: CraftedHistory) -> None:
    history.node("condemn", state="terminating", reason="boot_timeout")
    (entry,) = history.ledger.live()
    history.ledger.close(entry, now=history.now, cause=TOLD_TO_GO)
    history.judge.gone(entry)
    assert history.broken is None


def test_a_machine_without_a_record() -> None:
    history = CraftedHistory()
    history.has_operation()
    history.has_launch()
    history.has_machine()
    history.write(Entity.LAUNCH, "op-1.1", "settled", state="settled", closed_at=history.now)
    for _ in range(100):
        history.judge.tick(30.0, calm=False)
    assert history.broken is None
    for _ in range(100):
        history.judge.tick(30.0, calm=True)
    assert history.broken == "no_machine_without_a_record"


def test_an_operation_that_never_ends() -> None:
    history = CraftedHistory()
    history.has_operation()
    history.now += 3600.0
    for _ in range(30):
        history.judge.tick(30.0, calm=True)
    assert history.broken == "every_operation_ends"


def test_a_node_that_stays_beyond_its_deadline(history: CraftedHistory) -> None:
    history.node("extend", deadline_at=history.now + 1.0)
    history.now += 100.0
    for _ in range(30):
        history.judge.tick(30.0, calm=True)
    assert history.broken == "every_state_ends"


def test_a_launch_that_stays_open_after_its_operation() -> None:
    history = CraftedHistory()
    history.has_operation()
    history.has_launch()
    history.operation("ended", status="failed", ended_at=history.now, verdict={"reason": "internal"})
    for _ in range(100):
        history.judge.tick(30.0, calm=True)
    assert history.broken == "every_launch_is_closed"


def test_an_unforeseen_error(history: CraftedHistory) -> None:
    history.judge.failed(KeyError("x"))
    assert history.broken == "no_unexpected_error"


def test_only_the_first_broken_promise_counts(history: CraftedHistory) -> None:
    history.judge.failed(KeyError("x"))
    history.operation("committed", committed_at=history.now, members=[])
    assert history.broken == "no_unexpected_error"
    assert isinstance(history.judge.broken, Broken)


def test_what_remains_is_named(history: CraftedHistory) -> None:
    assert remains(history.judge.context).startswith("1 operations")
