"""What a verb leaves in the record, field by field."""

from dataclasses import replace

import pytest

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
from tests.domain.builders import NOW, node

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
