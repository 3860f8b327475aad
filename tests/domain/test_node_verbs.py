from collections.abc import Callable
from dataclasses import replace

import pytest

from muster.domain import node as nodes
from muster.domain.errors import IllegalTransition
from muster.domain.lifecycle import LIVE, NodeState, Verb, allowed
from muster.domain.node import Node, NodeChange, OperationGuard
from muster.domain.reasons import Reason
from tests.domain.builders import NOW, OPERATION, SMALLEST, node

LATER = NOW + 5000

Write = Callable[[Node], NodeChange]

MOVES: dict[Verb, tuple[Write, NodeState]] = {
    Verb.POOL_IN: (lambda n: nodes.pool_in(n, now=NOW, deadline_at=LATER), NodeState.IDLE),
    Verb.HAND_OVER: (lambda n: nodes.hand_over(n, now=NOW, deadline_at=LATER), NodeState.RUNNING),
    Verb.RELEASE: (lambda n: nodes.release(n, now=NOW, deadline_at=LATER), NodeState.RELEASING),
    Verb.CLEAN: (lambda n: nodes.clean(n, now=NOW, deadline_at=LATER), NodeState.IDLE),
    Verb.FAIL: (
        lambda n: nodes.fail(n, now=NOW, reason=Reason.BOOT_STALLED, deadline_at=LATER, detail="phase 2"),
        NodeState.FAILED,
    ),
    Verb.CONDEMN: (
        lambda n: nodes.condemn(n, now=NOW, reason=Reason.OPERATOR, detail="by hand"),
        NodeState.TERMINATING,
    ),
    Verb.CONFIRM_GONE: (lambda n: nodes.confirm_gone(n, now=NOW), NodeState.TERMINATED),
}
"""Every verb that moves a recorded node, except `claim`, which belongs to the store."""


def fit_for(verb: Verb, state: NodeState) -> Node:
    """A node that meets every condition of the verb except, perhaps, its state."""
    booted_at = None if verb is Verb.FAIL else NOW - 40
    attached_at = NOW - 20 if verb is Verb.HAND_OVER else None
    return node(state, booted_at=booted_at, attached_at=attached_at, operation_id=OPERATION)


EVERY = [(verb, state) for verb in MOVES for state in NodeState]
LEGAL = [(verb, state) for verb, state in EVERY if allowed(verb, state, MOVES[verb][1])]


@pytest.mark.parametrize(("verb", "state"), EVERY)
def test_a_verb_is_allowed_exactly_where_the_table_has_its_edge(verb: Verb, state: NodeState) -> None:
    write, target = MOVES[verb]
    if allowed(verb, state, target):
        change = write(fit_for(verb, state))
        assert (change.name, change.after.state) == (verb, target)
    else:
        with pytest.raises(IllegalTransition, match=f"cannot {verb} node node-1: no edge {state} → {target}"):
            write(fit_for(verb, state))


@pytest.mark.parametrize(("verb", "state"), LEGAL)
def test_a_move_counts_the_version_up_and_stamps_the_new_state(verb: Verb, state: NodeState) -> None:
    before = fit_for(verb, state)
    change = MOVES[verb][0](before)
    assert change.before == before
    assert change.after.version == before.version + 1
    assert change.after.entered_at == change.at == NOW
    final = verb in (Verb.CONDEMN, Verb.CONFIRM_GONE)
    assert change.after.deadline_at == (None if final else LATER)


@pytest.mark.parametrize(
    ("verb", "source"),
    [
        (Verb.POOL_IN, "idle_timeout"),
        (Verb.CLEAN, "idle_timeout"),
        (Verb.HAND_OVER, "max_runtime"),
        (Verb.RELEASE, "release_timeout"),
        (Verb.FAIL, "rescue_window"),
        (Verb.CONDEMN, ""),
        (Verb.CONFIRM_GONE, ""),
    ],
)
def test_the_new_deadline_says_where_it_comes_from(verb: Verb, source: str) -> None:
    state = next(state for each, state in LEGAL if each is verb)
    assert MOVES[verb][0](fit_for(verb, state)).after.deadline_source == source


@pytest.mark.parametrize(("verb", "state"), LEGAL)
def test_losing_a_node_of_an_uncommitted_operation_is_guarded_by_it(verb: Verb, state: NodeState) -> None:
    change = MOVES[verb][0](fit_for(verb, state))
    if verb is Verb.HAND_OVER:
        assert change.guard == OperationGuard(operation_id=OPERATION, committed=True)
    elif verb is not Verb.POOL_IN and state in (NodeState.CREATED, NodeState.CLAIMED):
        assert change.guard == OperationGuard(operation_id=OPERATION, committed=False)
    else:
        assert change.guard is None


@pytest.mark.parametrize("verb", [Verb.FAIL, Verb.CONDEMN, Verb.RELEASE])
def test_losing_a_node_that_is_bound_to_nothing_needs_no_guard(verb: Verb) -> None:
    free = replace(fit_for(verb, NodeState.CREATED), operation_id=None, assignment_id=None)
    assert MOVES[verb][0](free).guard is None


@pytest.mark.parametrize(("verb", "state"), LEGAL)
def test_only_a_return_to_the_pool_unbinds(verb: Verb, state: NodeState) -> None:
    before = replace(fit_for(verb, state), attached_at=NOW - 20)
    after = MOVES[verb][0](before).after
    bound = (after.operation_id, after.assignment_id, after.run, after.owner, after.attached_at)
    if verb in (Verb.POOL_IN, Verb.CLEAN):
        assert bound == (None, None, None, None, None)
    else:
        kept = (before.operation_id, before.assignment_id, before.run, before.owner, before.attached_at)
        assert bound == kept


def test_a_node_that_had_an_assignment_remembers_its_owner_even_if_it_never_attached() -> None:
    releasing = node(NodeState.RELEASING, owner="bob", last_owner="alice", attached_at=None)
    assert nodes.clean(releasing, now=NOW, deadline_at=LATER).after.last_owner == "bob"


def test_a_node_that_had_no_assignment_keeps_the_owner_it_remembered() -> None:
    for remembered in (None, "alice"):
        made = node(assignment_id=None, owner="refill", booted_at=NOW, last_owner=remembered)
        assert nodes.pool_in(made, now=NOW, deadline_at=LATER).after.last_owner == remembered


def test_a_node_is_not_forgotten_to_have_served_by_leaving_its_run() -> None:
    running = node(NodeState.RUNNING, owner="bob", last_owner="alice")
    released = nodes.release(running, now=NOW, deadline_at=LATER).after
    assert (released.owner, released.last_owner) == ("bob", "alice")


def test_a_node_that_has_not_booted_is_not_pooled() -> None:
    with pytest.raises(IllegalTransition, match="has not booted"):
        nodes.pool_in(node(), now=NOW, deadline_at=LATER)


def test_a_node_that_has_booted_does_not_fail() -> None:
    with pytest.raises(IllegalTransition, match="has booted"):
        nodes.fail(node(booted_at=NOW), now=NOW, reason=Reason.BOOT_TIMEOUT, deadline_at=LATER)


@pytest.mark.parametrize("missing", ["attached_at", "operation_id"])
def test_a_node_is_handed_over_only_attached_and_by_an_operation(missing: str) -> None:
    unready = replace(fit_for(Verb.HAND_OVER, NodeState.CREATED), **{missing: None})  # type: ignore[arg-type]
    with pytest.raises(IllegalTransition, match="not attached"):
        nodes.hand_over(unready, now=NOW, deadline_at=LATER)


def test_a_service_is_handed_over_without_a_deadline() -> None:
    ready = fit_for(Verb.HAND_OVER, NodeState.CLAIMED)
    assert nodes.hand_over(ready, now=NOW, deadline_at=None).after.deadline_at is None


def test_a_reason_is_kept_until_the_node_is_of_use_again() -> None:
    failed = MOVES[Verb.FAIL][0](node()).after
    assert failed.reason is Reason.BOOT_STALLED
    condemned = nodes.condemn(failed, now=NOW, reason=Reason.CANCELLED).after
    assert condemned.reason is Reason.CANCELLED
    assert nodes.confirm_gone(condemned, now=NOW).after.reason is Reason.CANCELLED
    given_back = nodes.release(node(NodeState.CLAIMED), now=NOW, deadline_at=LATER, reason=Reason.CAPACITY)
    assert given_back.after.reason is Reason.CAPACITY
    assert nodes.clean(given_back.after, now=NOW, deadline_at=LATER).after.reason is None


def test_the_detail_of_a_loss_is_part_of_the_change() -> None:
    assert MOVES[Verb.FAIL][0](node()).detail == "phase 2"
    assert MOVES[Verb.CONDEMN][0](node()).detail == "by hand"


@pytest.mark.parametrize("state", NodeState)
def test_a_node_is_adopted_as_created_or_to_be_terminated(state: NodeState) -> None:
    if state in (NodeState.CREATED, NodeState.TERMINATING):
        change = nodes.adopt(node(state), now=NOW)
        assert (change.before, change.after, change.guard) == (None, node(state), None)
        assert change.at == NOW
    else:
        with pytest.raises(IllegalTransition, match="no edge no record"):
            nodes.adopt(node(state), now=NOW)


@pytest.mark.parametrize("state", NodeState)
def test_every_live_node_can_be_extended_and_no_other(state: NodeState) -> None:
    before = node(state, deadline_at=NOW)
    if state not in LIVE:
        with pytest.raises(IllegalTransition):
            nodes.extend(before, now=NOW, deadline_at=LATER, source="operator")
        return
    change = nodes.extend(before, now=NOW, deadline_at=LATER, source="operator", detail="asked")
    expected = replace(before, deadline_at=LATER, deadline_source="operator", version=before.version + 1)
    assert (change.name, change.after) == (Verb.EXTEND, expected)
    assert change.detail == f"asked, until {nodes.time_of_day(LATER)}"
    assert change.at == NOW
    assert change.guard is None


@pytest.mark.parametrize("later", [-SMALLEST, 0.0])
def test_a_deadline_is_never_moved_to_the_same_or_an_earlier_time(later: float) -> None:
    with pytest.raises(IllegalTransition, match="not later"):
        nodes.extend(node(deadline_at=NOW), now=NOW, deadline_at=NOW + later, source="operator")


def test_the_least_later_deadline_is_an_extension() -> None:
    extended = nodes.extend(node(deadline_at=NOW), now=NOW, deadline_at=NOW + SMALLEST, source="operator")
    assert extended.after.deadline_at == NOW + SMALLEST


def test_a_node_without_a_deadline_has_nothing_to_extend() -> None:
    with pytest.raises(IllegalTransition, match="not later"):
        nodes.extend(node(NodeState.RUNNING, deadline_at=None), now=NOW, deadline_at=LATER, source="operator")
