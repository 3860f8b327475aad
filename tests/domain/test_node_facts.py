from dataclasses import replace
from typing import Any

import pytest

from muster.domain import node as nodes
from muster.domain.boot import Phase
from muster.domain.errors import IllegalTransition
from muster.domain.ids import AssignmentId
from muster.domain.lifecycle import Fact, NodeState
from muster.domain.node import (
    DETAIL_MAX,
    NodeChange,
    advanced,
    booted,
    condemn,
    displaced,
    fail,
    joined,
    leave,
    left,
    rescue,
)
from muster.domain.reasons import Reason
from muster.domain.template import EXTERNAL
from tests.domain.builders import NOW, OPERATION, node

LATER = NOW + 5000


def test_a_fact_leaves_the_state_and_the_time_it_was_entered() -> None:
    changes = [
        nodes.joined(node(), boot_id="b", now=NOW),
        nodes.advanced(node(), phase="boot_script", step="", now=NOW),
        nodes.booted(node(), now=NOW, deadline_at=LATER),
        nodes.attached(node(NodeState.CLAIMED), now=NOW, deadline_at=LATER),
        nodes.drained(node(NodeState.IDLE), now=NOW),
        nodes.interrupted(node(NodeState.RUNNING), now=NOW, ends_at=LATER),
        nodes.commanded(node(NodeState.RUNNING), now=NOW),
        nodes.held(node(NodeState.RUNNING), now=NOW, until=LATER),
        nodes.displaced(node(NodeState.RUNNING, provider=EXTERNAL), now=NOW),
        nodes.left(node(NodeState.TERMINATING, provider=EXTERNAL), now=NOW),
    ]
    assert [change.name for change in changes if change is not None] == list(Fact)
    for change in changes:
        assert change is not None and change.before is not None
        assert change.after.state is change.before.state
        assert change.after.entered_at == change.before.entered_at
        assert change.after.version == change.before.version + 1
        assert change.at == NOW
        assert change.guard is None


@pytest.mark.parametrize("fact", Fact)
@pytest.mark.parametrize("state", NodeState)
def test_a_fact_can_never_move_a_node(fact: Fact, state: NodeState) -> None:
    for other in NodeState:
        before, after = node(state), node(other)
        if state is other:
            assert NodeChange(name=fact, before=before, after=after, at=NOW).after == after
        else:
            with pytest.raises(IllegalTransition):
                NodeChange(name=fact, before=before, after=after, at=NOW)
    with pytest.raises(IllegalTransition):
        NodeChange(name=fact, before=None, after=node(state), at=NOW)


def test_joining_records_the_boot_and_its_time() -> None:
    before = node()
    after = nodes.joined(before, boot_id="boot-9", now=NOW).after
    assert after == replace(
        before, version=before.version + 1, boot_id="boot-9", joined_at=NOW, phase="joined"
    )


def test_joining_again_in_the_same_boot_keeps_the_time() -> None:
    first = nodes.joined(node(), boot_id="boot-9", now=NOW).after
    again = nodes.joined(first, boot_id="boot-9", now=LATER).after
    assert (again.joined_at, again.version) == (NOW, first.version + 1)


def test_joining_in_another_boot_starts_anew() -> None:
    first = nodes.joined(node(), boot_id="boot-9", now=NOW).after
    assert nodes.joined(first, boot_id="boot-10", now=LATER).after.joined_at == LATER


def test_a_boot_whose_time_is_unknown_gets_one() -> None:
    assert nodes.joined(node(boot_id="boot-9"), boot_id="boot-9", now=NOW).after.joined_at == NOW


def test_booting_starts_the_time_to_attach() -> None:
    before = node()
    after = nodes.booted(before, now=NOW, deadline_at=LATER).after
    assert after == replace(
        before,
        version=before.version + 1,
        booted_at=NOW,
        deadline_at=LATER,
        deadline_source="attach_timeout",
        phase="booted",
    )
    assert after.up and not before.up


def test_a_boot_advances_by_phase_and_step_and_says_nothing_twice() -> None:
    before = node(phase="joined")
    change = nodes.advanced(before, phase="boot_script", step="pull", now=NOW)
    assert change is not None
    assert change.after == replace(before, version=before.version + 1, phase="boot_script", step="pull")
    assert nodes.advanced(change.after, phase="boot_script", step="pull", now=LATER) is None
    for over in (
        node(booted_at=NOW),
        *(node(state) for state in NodeState if state is not NodeState.CREATED),
    ):
        with pytest.raises(IllegalTransition):
            nodes.advanced(over, phase="boot_script", step="pull", now=NOW)


def test_a_rescue_gives_the_node_back_under_an_assignment_and_says_so() -> None:
    failed = node(NodeState.FAILED, reason=Reason.BOOT_STALLED, operation_id=OPERATION, assignment_id=None)
    change = nodes.rescue(
        failed, now=NOW, assignment_id=AssignmentId("as-9"), deadline_at=LATER, detail="9 s late"
    )
    assert (change.told_as, change.detail) == ("rescued", "9 s late")
    assert (change.after.state, change.after.assignment_id) == (NodeState.RELEASING, "as-9")
    assert (change.after.booted_at, change.after.operation_id) == (NOW, OPERATION)
    with pytest.raises(IllegalTransition):
        nodes.rescue(
            replace(failed, booted_at=NOW),
            now=NOW,
            assignment_id=AssignmentId("as-9"),
            deadline_at=LATER,
            detail="",
        )


@pytest.mark.parametrize("state", NodeState)
def test_only_a_created_node_that_is_not_up_can_boot(state: NodeState) -> None:
    if state is NodeState.CREATED:
        nodes.booted(node(state, booted_at=None), now=NOW, deadline_at=LATER)
    else:
        with pytest.raises(IllegalTransition, match="booted"):
            nodes.booted(node(state, booted_at=None), now=NOW, deadline_at=LATER)
    with pytest.raises(IllegalTransition, match="booted"):
        nodes.booted(node(state, booted_at=NOW), now=NOW, deadline_at=LATER)


@pytest.mark.parametrize("state", NodeState)
def test_only_a_node_that_is_awaited_can_attach(state: NodeState) -> None:
    waiting = node(state, booted_at=NOW - 40, attached_at=None, assignment_id="as-1")
    if state in (NodeState.CREATED, NodeState.CLAIMED):
        after = nodes.attached(waiting, now=NOW, deadline_at=LATER).after
        assert after == replace(
            waiting,
            version=waiting.version + 1,
            attached_at=NOW,
            deadline_at=LATER,
            deadline_source="operation",
        )
        assert after.attached and not waiting.attached
    else:
        with pytest.raises(IllegalTransition, match="attached"):
            nodes.attached(waiting, now=NOW, deadline_at=LATER)


@pytest.mark.parametrize("fields", [{"booted_at": None}, {"assignment_id": None}, {"attached_at": NOW - 1}])
def test_a_node_attaches_once_booted_and_once_assigned_and_only_once(fields: dict[str, Any]) -> None:
    with pytest.raises(IllegalTransition, match="attached"):
        nodes.attached(node(NodeState.CLAIMED, **fields), now=NOW, deadline_at=LATER)


def test_draining_is_a_flag() -> None:
    before = node(NodeState.RUNNING)
    assert nodes.drained(before, now=NOW).after == replace(before, version=before.version + 1, drain=True)


@pytest.mark.parametrize("state", NodeState)
def test_only_a_running_node_under_an_assignment_is_commanded(state: NodeState) -> None:
    before = node(state, assignment_id="as-1")
    if state is NodeState.RUNNING:
        assert nodes.commanded(before, now=NOW).after == replace(before, version=before.version + 1)
    else:
        with pytest.raises(IllegalTransition, match=f"cannot command node node-1: it is {state}"):
            nodes.commanded(before, now=NOW)
    with pytest.raises(IllegalTransition, match="cannot command"):
        nodes.commanded(node(state, assignment_id=None), now=NOW)


APP = node(NodeState.RUNNING, provider=EXTERNAL, address="http://app")


def test_a_rescued_node_is_given_back_booted_with_the_reason_it_had() -> None:
    failed = node(NodeState.FAILED, phase="boot_script", step="apt", detail="720 s")
    change = rescue(
        failed, now=NOW, assignment_id=AssignmentId("as-9"), deadline_at=NOW + 9, detail="3 s late"
    )
    assert change.after == replace(
        failed,
        state=NodeState.RELEASING,
        version=failed.version + 1,
        entered_at=NOW,
        deadline_at=NOW + 9,
        deadline_source="release_timeout",
        booted_at=NOW,
        phase=Phase.BOOTED.value,
        step="",
        assignment_id=AssignmentId("as-9"),
    )
    assert (change.detail, change.told_as) == ("3 s late", "rescued")


@pytest.mark.parametrize("since", [None, NOW - 5])
def test_who_is_failed_for_standing_still_is_spared_by_an_advance_since_then(since: float | None) -> None:
    change = fail(node(), now=NOW, reason=Reason.BOOT_STALLED, deadline_at=NOW + 1, still_since=since)
    assert change.still_since == since


def test_an_app_that_leaves_says_so_and_is_gone_from_then_on() -> None:
    change = leave(APP, now=NOW)
    assert (change.after.reason, change.after.detail, change.after.left_at) == (
        Reason.LEFT,
        "it said goodbye",
        NOW,
    )
    assert change.detail == "it said goodbye"


def test_an_app_that_was_condemned_leaves_once() -> None:
    condemned = condemn(APP, now=NOW - 1, reason=Reason.OPERATOR).after
    change = left(condemned, now=NOW)
    assert change == NodeChange(
        name=Fact.LEFT,
        before=condemned,
        after=replace(condemned, version=condemned.version + 1, left_at=NOW),
        at=NOW,
    )
    with pytest.raises(IllegalTransition):
        left(change.after, now=NOW)
    with pytest.raises(IllegalTransition):
        left(APP, now=NOW)


def test_an_app_whose_address_another_took_has_none_any_more() -> None:
    change = displaced(APP, now=NOW)
    assert change.after == replace(APP, version=APP.version + 1, address="")


@pytest.mark.parametrize("verb", [leave, left, displaced])
def test_a_machine_is_no_app(verb: object) -> None:
    assert callable(verb)
    with pytest.raises(IllegalTransition):
        verb(node(NodeState.TERMINATING), now=NOW)


@pytest.mark.parametrize("length", [DETAIL_MAX - 1, DETAIL_MAX, DETAIL_MAX + 1])
def test_the_record_keeps_one_bounded_line_and_the_event_all_of_it(length: int) -> None:
    detail = "x" * length + "\nmore"
    change = condemn(node(), now=NOW, reason=Reason.OPERATOR, detail=detail)
    assert change.after.detail == "x" * min(length, DETAIL_MAX)
    assert change.detail == detail


def test_the_words_of_a_reason_stay_as_long_as_the_reason() -> None:
    failed = node(NodeState.FAILED, reason=Reason.BOOT_STALLED, detail="stood still")
    assert condemn(failed, now=NOW, reason=Reason.BOOT_STALLED, detail="x").after.detail == "stood still"
    assert condemn(failed, now=NOW, reason=Reason.OPERATOR, detail="x").after.detail == "x"


def test_joining_again_in_the_same_boot_goes_back_to_no_phase() -> None:
    on = node(boot_id="boot-1", joined_at=NOW - 5, phase="boot_script", step="apt")
    again = joined(on, boot_id="boot-1", now=NOW).after
    assert (again.joined_at, again.phase) == (NOW - 5, "boot_script")
    anew = joined(on, boot_id="boot-2", now=NOW).after
    assert (anew.joined_at, anew.phase) == (NOW, Phase.JOINED.value)


def test_a_booted_node_is_in_no_step_any_more() -> None:
    after = booted(node(phase="boot_script", step="apt"), now=NOW, deadline_at=NOW + 1).after
    assert (after.phase, after.step) == (Phase.BOOTED.value, "")


@pytest.mark.parametrize(("step", "told"), [("apt", "apt"), ("", "boot_script")])
def test_an_advance_is_told_by_its_step_or_else_by_its_phase(step: str, told: str) -> None:
    change = advanced(node(), phase="boot_script", step=step, now=NOW)
    assert change is not None
    assert change.detail == told
