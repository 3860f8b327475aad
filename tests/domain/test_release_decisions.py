from dataclasses import replace
from typing import Any

import pytest

from muster.domain.decisions import Finish, Wait
from muster.domain.errors import IllegalTransition
from muster.domain.ids import AssignmentId
from muster.domain.lifecycle import NodeState, Verb
from muster.domain.node import Node
from muster.domain.operation import ENDED, Member, Operation, Status, Verdict
from muster.domain.reasons import Reason
from muster.domain.release_decisions import CancelTarget, Release, Situation, after_detach, decide
from muster.domain.template import Reuse
from tests.domain.builders import NOW, RELEASE, REVISION, SMALLEST, node, operation, template

RUNNING = [node(NodeState.RUNNING, n) for n in (1, 2)]
HANDED = tuple(
    Member(node_id=each.id, assignment_id=each.assignment_id) for each in RUNNING if each.assignment_id
)
DONE = operation(status=Status.SUCCEEDED, committed_at=NOW - 50, members=HANDED)
ALL_BACK = Finish(status=Status.SUCCEEDED, result="all nodes are back")
TIMED_OUT = Verdict(
    reason=Reason.RELEASE_TIMEOUT, message="some nodes did not come back in time; Muster terminates them"
)


RETURNING = 171.0


def situation(
    target: Operation = DONE, nodes: list[Node] | None = None, *, left: float = 1.0, **request: Any
) -> Situation:
    return Situation(
        operation=operation(request=RELEASE, deadline_at=NOW + left),
        request=replace(RELEASE, **request),
        target=target,
        nodes=RUNNING if nodes is None else nodes,
        now=NOW,
        returning=RETURNING,
    )


@pytest.mark.parametrize("status", [Status.QUEUED, Status.RUNNING])
@pytest.mark.parametrize("left", [1.0, 0.0])
def test_an_unfinished_provision_is_cancelled_first(status: Status, left: float) -> None:
    assert decide(situation(operation(status=status), [], left=left)) == CancelTarget()


@pytest.mark.parametrize(
    "fields",
    [
        {"committed_at": 0.0},
        {"cancel_requested_at": 0.0},
        {"verdict": Verdict(reason=Reason.QUOTA, message="")},
    ],
    ids=str,
)
def test_a_provision_that_is_on_its_way_out_or_committed_is_waited_for(fields: dict[str, Any]) -> None:
    target = operation(**fields)
    assert decide(situation(target)) == Wait()
    assert decide(situation(target, left=0.0)) == Wait()


@pytest.mark.parametrize("status", ENDED)
def test_running_nodes_of_an_ended_provision_are_released(status: Status) -> None:
    mixed = [*RUNNING, node(NodeState.RELEASING, 3), node(NodeState.TERMINATING, 4)]
    target = operation(status=status)
    assert decide(situation(target, mixed)) == Release(nodes=tuple(RUNNING))
    assert decide(situation(target, mixed, left=-1.0)) == Release(nodes=tuple(RUNNING))


def test_a_release_of_named_assignments_touches_no_other_node() -> None:
    first = (AssignmentId("as-1"),)
    assert decide(situation(assignment_ids=first)) == Release(nodes=(RUNNING[0],))
    only_others = [RUNNING[1], node(NodeState.RELEASING, 3)]
    assert decide(situation(nodes=only_others, assignment_ids=first)) == ALL_BACK


@pytest.mark.parametrize(("left", "over"), [(SMALLEST, False), (0.0, True), (-SMALLEST, True)])
def test_a_release_waits_for_its_nodes_until_its_deadline(left: float, over: bool) -> None:
    action = decide(situation(nodes=[node(NodeState.RELEASING)], left=left))
    assert action == (Finish(status=Status.FAILED, verdict=TIMED_OUT) if over else Wait())


@pytest.mark.parametrize(("late", "over"), [(-SMALLEST, False), (0.0, True), (SMALLEST, True)])
def test_nodes_have_their_time_to_come_back_from_the_end_of_their_provision(late: float, over: bool) -> None:
    target = replace(DONE, ended_at=NOW - RETURNING - late)
    action = decide(situation(target, [node(NodeState.RELEASING)], left=-10_000.0))
    assert action == (Finish(status=Status.FAILED, verdict=TIMED_OUT) if over else Wait())


@pytest.mark.parametrize(("left", "over"), [(SMALLEST, False), (0.0, True)])
def test_a_provision_that_ended_long_ago_shortens_no_deadline(left: float, over: bool) -> None:
    target = replace(DONE, ended_at=NOW - 10 * RETURNING)
    action = decide(situation(target, [node(NodeState.RELEASING)], left=left))
    assert action == (Finish(status=Status.FAILED, verdict=TIMED_OUT) if over else Wait())


@pytest.mark.parametrize("state", [NodeState.FAILED, NodeState.TERMINATING, NodeState.TERMINATED])
def test_a_release_is_done_when_nothing_runs_or_is_being_cleaned(state: NodeState) -> None:
    for nodes in ([], [node(state)]):
        action = decide(situation(nodes=nodes, left=0.0))
        assert isinstance(action, Finish) and (action.status, action.verdict) == (Status.SUCCEEDED, None)


def gone(n: int, reason: Reason, state: NodeState = NodeState.TERMINATED) -> Node:
    return node(state, n, assignment_id=AssignmentId(f"as-{n}"), reason=reason)


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ([], "all nodes are back"),
        ([gone(1, Reason.REUSE)], "all nodes are back; 1 will not be used again"),
        ([gone(1, Reason.REUSE), gone(2, Reason.RETIRED)], "all nodes are back; 2 will not be used again"),
        (
            [gone(1, Reason.REUSE), gone(2, Reason.HEARTBEAT_LOST)],
            "1 of 2 nodes back: 1 is gone (heartbeat_lost)",
        ),
        (
            [gone(1, Reason.HEARTBEAT_LOST), gone(2, Reason.HEARTBEAT_LOST, NodeState.TERMINATING)],
            "0 of 2 nodes back: 2 are gone (heartbeat_lost)",
        ),
        (
            [gone(1, Reason.MAX_RUNTIME), gone(2, Reason.MACHINE_GONE)],
            "0 of 2 nodes back: 2 are gone (max_runtime, machine_gone)",
        ),
        ([gone(7, Reason.BOOT_TIMEOUT)], "all nodes are back"),  # it was replaced before the hand-over
    ],
)
def test_a_release_says_how_many_nodes_are_back(nodes: list[Node], told: str) -> None:
    assert decide(situation(nodes=nodes)) == Finish(status=Status.SUCCEEDED, result=told)


def test_what_was_stopped_before_its_hand_over_has_no_nodes_to_give_back() -> None:
    stopped = operation(status=Status.CANCELLED)
    end = Finish(status=Status.SUCCEEDED, result="no nodes are held any more")
    assert decide(situation(stopped, [gone(1, Reason.CANCELLED)])) == end


# --- what becomes of a clean node -----------------------------------------------------------------


@pytest.mark.parametrize("revision", [REVISION, REVISION - 1])
def test_a_clean_node_goes_back_to_the_pool(revision: int) -> None:
    current = template(revision=revision, idle_timeout=77.0)
    change = after_detach(node(NodeState.RELEASING), current, now=NOW, due_at=None)
    assert (change.name, change.after.state) == (Verb.CLEAN, NodeState.IDLE)
    assert change.after.deadline_at == NOW + 77.0
    assert (change.after.assignment_id, change.after.last_owner) == (None, "alice")


@pytest.mark.parametrize(
    ("fields", "spec", "reason"),
    [
        ({}, {"reuse": Reuse.NEVER}, Reason.REUSE),
        ({}, {"revision": REVISION + 1}, Reason.RETIRED),
        ({"drain": True}, {}, Reason.OPERATOR),
        ({"drain": True, "reason": Reason.INTERRUPTED}, {}, Reason.INTERRUPTED),
    ],
)
def test_a_clean_node_that_may_not_serve_again_is_thrown_away(
    fields: dict[str, Any], spec: dict[str, Any], reason: Reason
) -> None:
    change = after_detach(node(NodeState.RELEASING, **fields), template(**spec), now=NOW, due_at=None)
    assert (change.name, change.after.reason) == (Verb.CONDEMN, reason)
    assert change.detail == ("it was draining" if "drain" in fields else "")


@pytest.mark.parametrize("due_at", [NOW, NOW - SMALLEST])
def test_a_node_that_is_clean_too_late_is_thrown_away(due_at: float) -> None:
    change = after_detach(node(NodeState.RELEASING), template(), now=NOW, due_at=due_at)
    assert (change.name, change.after.reason) == (Verb.CONDEMN, Reason.RELEASE_TIMEOUT)


@pytest.mark.parametrize("due_at", [NOW + SMALLEST, None])
def test_a_node_that_is_clean_in_time_is_kept(due_at: float | None) -> None:
    clean = node(NodeState.RELEASING, deadline_at=NOW - SMALLEST)
    assert after_detach(clean, template(), now=NOW, due_at=due_at).name is Verb.CLEAN


@pytest.mark.parametrize("state", [state for state in NodeState if state is not NodeState.RELEASING])
def test_only_a_releasing_node_can_go_back(state: NodeState) -> None:
    with pytest.raises(IllegalTransition):
        after_detach(node(state, deadline_at=None), template(), now=NOW, due_at=None)


def test_the_situation_of_a_release_means_all_nodes_unless_told_otherwise() -> None:
    assert situation().selected == RUNNING
