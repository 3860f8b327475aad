"""Each invariant can break: a crafted history breaks exactly that one."""

from typing import Any

import pytest

from muster.domain import events
from muster.domain.events import Entity
from muster.domain.ids import AssignmentId, OperationId
from muster.domain.requests import ReleaseRequest
from muster.domain.template import Template, TemplateSpec
from muster.simulation.invariants import Broken
from muster.simulation.invariants.final_rules import remains
from muster.simulation.invariants.health_rules import SILENCE
from muster.simulation.invariants.machine_rules import TOLD_TO_GO
from muster.simulation.invariants.queue_rules import STARVED
from tests.simulation.court import UNBOUND, Court, attach, commit


@pytest.fixture
def court() -> Court:
    """One provision with one node that has booted; nothing is broken so far."""
    made = Court()
    made.has_operation()
    made.has_launch()
    made.has_machine()
    made.has_node()
    assert made.broken is None
    return made


def test_a_whole_life_breaks_nothing(court: Court) -> None:
    commit(court)
    court.node("hand_over", state="running")
    court.operation("ended", status="succeeded", ended_at=court.now)
    court.node("release", state="releasing")
    court.agents["i-1"].attached = None
    unbound = dict.fromkeys(("operation_id", "assignment_id", "run", "owner", "attached_at"))
    court.node("clean", state="idle", last_owner="me", **unbound)
    court.node("condemn", state="terminating")
    court.judge.called("terminate", ["i-1"])
    court.ledger.close(court.ledger.live()[0], now=court.now, cause="terminated")
    court.node("confirm_gone", state="terminated")
    court.write(Entity.LAUNCH, "op-1.1", "settled", state="settled", adopted=1, closed_at=court.now)
    assert court.broken is None
    assert remains(court.judge.context) == ""


def test_an_edge_outside_the_table(court: Court) -> None:
    court.node("clean", state="idle")
    assert court.broken == "only_edges_of_the_table"


def test_a_version_that_jumps(court: Court) -> None:
    court.versions["node-1"] = 7
    court.node("joined")
    assert court.broken == "feed_is_complete"


def test_a_second_assignment(court: Court) -> None:
    court.node("attached", assignment_id="as-2")
    assert court.broken == "one_assignment_per_node"


def test_an_assignment_used_again(court: Court) -> None:
    court.has_machine("i-2")
    court.has_node("node-2", machine_id="i-2")
    assert court.broken == "assignments_are_never_used_again"


def test_an_idle_node_that_is_bound(court: Court) -> None:
    court.node("pool_in", state="idle")
    assert court.broken == "idle_nodes_are_unbound"


def test_an_idle_node_whose_agent_is_attached(court: Court) -> None:
    court.agents["i-1"].attached = AssignmentId("as-1")
    unbound = dict.fromkeys(("operation_id", "assignment_id", "run", "owner", "attached_at"))
    court.node("pool_in", state="idle", **unbound)
    assert court.broken == "idle_nodes_are_detached"


def test_a_signal_of_another_assignment_that_counts(court: Court) -> None:
    court.agents["i-1"].attached = AssignmentId("as-0")
    court.node("attached", attached_at=court.now)
    assert court.broken == "attached_is_attached"


def test_a_hand_over_before_the_commit(court: Court) -> None:
    attach(court)
    court.node("hand_over", state="running")
    assert court.broken == "handed_over_after_commit"


def test_a_hand_over_to_two_runs(court: Court) -> None:
    commit(court)
    court.agents["i-1"].attached = AssignmentId("as-0")
    court.node("hand_over", state="running")
    assert court.broken == "one_run_at_a_time"


def test_a_committed_node_that_is_judged(court: Court) -> None:
    commit(court)
    court.node("condemn", state="terminating")
    assert court.broken == "committed_nodes_only_roll_forward"


def test_a_terminated_node_whose_machine_lives(court: Court) -> None:
    court.node("condemn", state="terminating")
    court.node("confirm_gone", state="terminated")
    assert court.broken == "terminated_is_gone"


def test_a_claim_for_an_operation_that_queues(court: Court) -> None:
    court.has_operation("op-2")
    unbound = dict.fromkeys(("operation_id", "assignment_id", "run", "owner", "attached_at"))
    court.node("pool_in", state="idle", **unbound)
    court.write(Entity.OPERATION, "op-2", "queued", status="queued", queued_since=court.now)
    bound = {"operation_id": "op-2", "assignment_id": "as-2", "owner": "me"}
    court.node("claim", state="claimed", **bound)
    assert court.broken == "the_queue_holds_nothing"


def test_a_claim_across_owners(court: Court) -> None:
    unbound = dict.fromkeys(("operation_id", "assignment_id", "run", "owner", "attached_at"))
    court.node("pool_in", state="idle", last_owner="you", **unbound)
    bound = {"operation_id": "op-1", "assignment_id": "as-2", "owner": "me"}
    court.node("claim", state="claimed", **bound)
    assert court.broken == "reuse_is_respected"


def test_a_minimum_that_is_kept_for_one_owner(court: Court) -> None:
    court.node("pool_in", state="idle", last_owner="you", **UNBOUND)
    court.node("extend", deadline_at=court.now + 900.0, deadline_source="min_idle")
    assert court.broken == "the_minimum_is_for_anybody"


def test_a_node_taken_for_an_operation_that_has_ended() -> None:
    court = Court()
    court.has_operation()
    court.has_launch()
    court.has_machine()
    court.operation("ended", status="failed", ended_at=court.now, verdict={"reason": "internal"})
    assert court.broken is None
    court.has_node()
    assert court.broken == "nobody_takes_for_the_ended"


def test_a_second_node_for_an_operation_that_wants_one(court: Court) -> None:
    court.has_machine("i-2")
    court.has_node("node-2", machine_id="i-2", assignment_id=AssignmentId("as-2"))
    assert court.broken == "nobody_takes_too_much"


def test_a_second_node_after_the_first_was_lost_is_fine(court: Court) -> None:
    court.node("condemn", state="terminating", reason="boot_timeout")
    court.has_machine("i-2")
    court.has_node("node-2", machine_id="i-2", assignment_id=AssignmentId("as-2"))
    assert court.broken is None


def claimed(court: Court) -> None:
    """The court's node was warm, and is now claimed by its operation."""
    court.node("pool_in", state="idle", **UNBOUND)
    court.node("claim", state="claimed", operation_id="op-1", assignment_id="as-2", owner="me", run="run-1")
    assert court.broken is None


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"verdict": {"reason": "quota", "message": ""}}, "quota"),
        ({"cancel_requested_at": 1000.0}, "cancelled"),
    ],
    ids=["failed", "cancelled"],
)
def test_a_warm_node_thrown_away_by_a_roll_back(court: Court, fields: dict[str, Any], reason: str) -> None:
    claimed(court)
    court.operation("failing", **fields)
    court.node("condemn", state="terminating", reason=reason)
    assert court.broken == "warm_nodes_return"


def test_a_warm_node_with_a_fault_of_its_own_may_be_thrown_away(court: Court) -> None:
    claimed(court)
    court.operation("failing", verdict={"reason": "quota", "message": ""})
    court.node("condemn", state="terminating", reason="heartbeat_lost")
    assert court.broken is None


def in_line(court: Court, *operation_ids: str) -> None:
    """Provisions that wait in the queue, the oldest first."""
    for operation_id in operation_ids:
        court.now += 1.0
        court.has_operation(operation_id)
        court.write(Entity.OPERATION, operation_id, "queued", status="queued", queued_since=court.now)
    assert court.broken is None


def _pass(court: Court, seconds: float, *, calm: bool = True) -> None:
    for _ in range(int(seconds / 30.0)):
        court.now += 30.0
        court.judge.tick(30.0, calm=calm)


def test_a_head_of_the_queue_that_stays_although_it_fits() -> None:
    court = Court()
    court.judge.queues.total_cap = 3
    in_line(court, "op-1", "op-2")
    _pass(court, 600.0, calm=False)
    assert court.broken is None
    _pass(court, STARVED)
    assert court.broken is None
    _pass(court, 60.0)
    assert court.broken == "the_head_of_the_queue_goes_on"


def test_a_head_of_the_queue_waits_while_there_is_no_room_or_while_it_tries() -> None:
    court = Court()
    court.judge.queues.total_cap = 0
    in_line(court, "op-1", "op-2")
    _pass(court, 300.0)
    assert court.broken is None
    court.judge.queues.total_cap = 3
    court.operation("resumed", status="running")
    _pass(court, 300.0)
    assert court.broken is None


def test_one_that_goes_on_before_an_older_one() -> None:
    court = Court()
    in_line(court, "op-1", "op-2")
    court.write(Entity.OPERATION, "op-2", "resumed", status="running")
    assert court.broken == "the_queue_is_fair"


def test_the_queue_moves_from_its_head() -> None:
    court = Court()
    in_line(court, "op-1", "op-2", "op-3")
    court.write(Entity.OPERATION, "op-1", "resumed", status="running")
    court.write(Entity.OPERATION, "op-1", "progressed", queued_since=None)
    verdict = {"reason": "cap_reached", "message": ""}
    court.write(
        Entity.OPERATION,
        "op-2",
        "ended",
        status="failed",
        queued_since=None,
        ended_at=court.now,
        verdict=verdict,
    )
    court.write(Entity.OPERATION, "op-3", "resumed", status="running")
    assert court.broken is None


@pytest.mark.parametrize(
    ("meant", "broken"),
    [(None, "released_is_released"), (("as-1",), "released_is_released"), (("as-9",), None)],
    ids=["all", "this one", "another one"],
)
def test_a_release_that_says_it_is_done_while_a_node_runs(
    court: Court, meant: tuple[str, ...] | None, broken: str | None
) -> None:
    commit(court)
    court.node("hand_over", state="running")
    court.operation("ended", status="succeeded", ended_at=court.now)
    assignments = None if meant is None else tuple(AssignmentId(each) for each in meant)
    court.has_release("op-2", ReleaseRequest(operation_id=OperationId("op-1"), assignment_ids=assignments))
    assert court.broken is None
    court.write(Entity.OPERATION, "op-2", "ended", status="succeeded", ended_at=court.now)
    assert court.broken == broken


def test_a_release_that_failed_may_leave_a_node(court: Court) -> None:
    commit(court)
    court.node("hand_over", state="running")
    court.operation("ended", status="succeeded", ended_at=court.now)
    court.has_release("op-2", ReleaseRequest(operation_id=OperationId("op-1")))
    verdict = {"reason": "release_timeout", "message": ""}
    court.write(Entity.OPERATION, "op-2", "ended", status="failed", ended_at=court.now, verdict=verdict)
    assert court.broken is None


def test_a_claim_of_a_revision_that_is_not_the_current_one(court: Court) -> None:
    court.node("pool_in", state="idle", **UNBOUND)
    newer = TemplateSpec(name="ci", provider="simulated", max_nodes=2, boot_script="echo newer")
    court.see(events.of_template(Template(spec=newer, revision=2, applied_at=court.now)))
    court.node("claim", state="claimed", operation_id="op-1", assignment_id="as-2", owner="me", run="run-1")
    assert court.broken == "claims_are_current"


def test_an_operation_that_queues_with_full_hands(court: Court) -> None:
    court.operation("queued", status="queued", queued_since=court.now)
    assert court.broken == "the_queue_holds_nothing"


def test_a_commit_of_fewer_than_asked_for(court: Court) -> None:
    court.operation("committed", committed_at=court.now, members=[])
    assert court.broken == "all_or_nothing"


def test_a_commit_of_a_node_that_is_not_attached(court: Court) -> None:
    members = [{"node_id": "node-1", "assignment_id": "as-1"}]
    court.operation("committed", committed_at=court.now, members=members)
    assert court.broken == "all_attached_at_commit"


def test_a_commit_of_a_node_of_another_kind() -> None:
    court = Court()
    court.has_operation()
    court.has_launch()
    court.has_machine()
    court.has_node(owner="you")
    commit(court)
    assert court.broken == "members_are_what_was_asked_for"


def test_a_commit_of_a_machine_that_is_long_gone(court: Court) -> None:
    attach(court)
    court.ledger.close(court.ledger.live()[0], now=court.now, cause="died")
    del court.agents["i-1"]
    court.now += SILENCE + 0.1
    court.operation(
        "committed", committed_at=court.now, members=[{"node_id": "node-1", "assignment_id": "as-1"}]
    )
    assert court.broken == "all_alive_at_commit"


def test_a_failure_that_leaves_a_node(court: Court) -> None:
    verdict = {"reason": "internal", "message": ""}
    court.operation("ended", status="failed", ended_at=court.now, verdict=verdict)
    assert court.broken == "an_end_leaves_nothing"


def test_a_failure_without_a_reason() -> None:
    court = Court()
    court.has_operation()
    court.operation("ended", status="failed", ended_at=court.now)
    assert court.broken == "failures_say_why"


def test_a_success_without_a_commit() -> None:
    court = Court()
    court.has_operation()
    court.operation("ended", status="succeeded", ended_at=court.now)
    assert court.broken == "succeeded_is_committed"


def test_a_write_after_the_end() -> None:
    court = Court()
    court.has_operation()
    court.operation("ended", status="failed", ended_at=court.now, verdict={"reason": "internal"})
    court.operation("progressed")
    assert court.broken == "ended_is_ended"


def test_progress_that_goes_back(court: Court) -> None:
    court.operation("progressed", progress={"step": 3, "percent": 50.0})
    court.operation("progressed", progress={"step": 3, "percent": 49.0})
    assert court.broken == "progress_never_goes_back"


def test_two_operations_of_one_key() -> None:
    court = Court()
    court.has_operation("op-1", idempotency_key="k")
    court.has_operation("op-2", idempotency_key="k")
    assert court.broken == "one_operation_per_key"


def test_an_acknowledged_operation_that_nobody_stored(court: Court) -> None:
    court.judge.acknowledged("op-9", None)
    assert court.broken == "no_acknowledged_request_is_lost"


def test_a_reservation_beyond_the_cap(court: Court) -> None:
    for number in range(2, 5):
        court.has_launch(f"op-1.{number}", called=False)
    assert court.broken == "caps_hold"


def test_machines_beyond_the_cap(court: Court) -> None:
    for number in range(2, 4):
        court.has_machine(f"i-{number}")
    assert court.broken == "caps_hold"


def test_a_call_without_a_stored_launch(court: Court) -> None:
    court.judge.called("launch", ["inst-1/op-9.1"])
    assert court.broken == "stored_before_called"


def test_a_usable_machine_of_a_call_made_after_its_launch_was_closed() -> None:
    court = Court()
    court.has_operation()
    court.has_launch()
    court.write(Entity.LAUNCH, "op-1.1", "abandoned", state="abandoned", closed_at=court.now)
    court.now += 10.0
    court.has_machine()
    court.has_node()
    assert court.broken == "late_machines_are_never_usable"


def test_a_launch_that_comes_back(court: Court) -> None:
    court.write(Entity.LAUNCH, "op-1.1", "settled", state="settled", closed_at=court.now)
    court.write(Entity.LAUNCH, "op-1.1", "calling", state="calling")
    assert court.broken == "only_edges_of_a_launch"


def test_an_end_for_a_machine_that_nobody_condemned(court: Court) -> None:
    court.judge.called("terminate", ["i-1"])
    assert court.broken == "only_condemned_machines_end"


def test_an_end_for_a_foreign_machine(court: Court) -> None:
    entry = court.has_machine("i-9", installation="inst-2")
    court.judge.called("terminate", ["i-9"])
    assert court.broken == "no_foreign_machine_is_touched"
    assert entry.terminate_calls == []


@pytest.mark.parametrize(
    ("cause", "broken"),
    [(TOLD_TO_GO, "no_wanted_machine_is_turned_away"), ("died", None)],
    ids=["told to go", "died"],
)
def test_a_machine_that_goes_while_its_node_is_wanted(court: Court, cause: str, broken: str | None) -> None:
    (entry,) = court.ledger.live()
    court.ledger.close(entry, now=court.now, cause=cause)
    court.judge.gone(entry)
    assert court.broken == broken


def test_a_condemned_machine_that_is_told_to_go(court: Court) -> None:
    court.node("condemn", state="terminating", reason="boot_timeout")
    (entry,) = court.ledger.live()
    court.ledger.close(entry, now=court.now, cause=TOLD_TO_GO)
    court.judge.gone(entry)
    assert court.broken is None


def test_a_machine_that_nobody_records() -> None:
    court = Court()
    court.has_operation()
    court.has_launch()
    court.has_machine()
    court.write(Entity.LAUNCH, "op-1.1", "settled", state="settled", closed_at=court.now)
    for _ in range(100):
        court.judge.tick(30.0, calm=False)
    assert court.broken is None
    for _ in range(100):
        court.judge.tick(30.0, calm=True)
    assert court.broken == "no_machine_without_a_record"


def test_an_operation_that_never_ends() -> None:
    court = Court()
    court.has_operation()
    court.now += 3600.0
    for _ in range(30):
        court.judge.tick(30.0, calm=True)
    assert court.broken == "every_operation_ends"


def test_a_node_that_stays_beyond_its_deadline(court: Court) -> None:
    court.node("extend", deadline_at=court.now + 1.0)
    court.now += 100.0
    for _ in range(30):
        court.judge.tick(30.0, calm=True)
    assert court.broken == "every_state_ends"


def test_a_launch_that_stays_open_after_its_operation() -> None:
    court = Court()
    court.has_operation()
    court.has_launch()
    court.operation("ended", status="failed", ended_at=court.now, verdict={"reason": "internal"})
    for _ in range(100):
        court.judge.tick(30.0, calm=True)
    assert court.broken == "every_launch_is_closed"


def test_an_error_that_nobody_expects(court: Court) -> None:
    court.judge.failed(KeyError("x"))
    assert court.broken == "no_unexpected_error"


def test_only_the_first_broken_promise_counts(court: Court) -> None:
    court.judge.failed(KeyError("x"))
    court.operation("committed", committed_at=court.now, members=[])
    assert court.broken == "no_unexpected_error"
    assert isinstance(court.judge.broken, Broken)


def test_what_remains_is_named(court: Court) -> None:
    assert remains(court.judge.context).startswith("1 operations")
