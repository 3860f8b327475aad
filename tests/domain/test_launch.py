from dataclasses import replace
from typing import Any

import pytest

from muster.domain import launch as launches
from muster.domain.errors import IllegalTransition
from muster.domain.ids import InstallationId, LaunchId, OperationId, launch_id, launch_token
from muster.domain.launch import Launch, LaunchState
from muster.domain.reasons import Reason
from tests.domain.builders import NOW, SMALLEST, launch

CALLABLE = {LaunchState.PLANNED, LaunchState.CALLING}
TIMEOUT = 30.0
WINDOW = 300.0


@pytest.mark.parametrize("state", LaunchState)
def test_a_launch_can_be_called_while_it_is_open(state: LaunchState) -> None:
    before = launch(state)
    assert before.open is (state in CALLABLE)
    if state not in CALLABLE:
        with pytest.raises(IllegalTransition, match=f"it is {state}"):
            launches.calling(before, now=NOW)
        return
    assert launches.calling(before, now=NOW) == replace(
        before,
        state=LaunchState.CALLING,
        version=before.version + 1,
        called_at=NOW,
        calls=before.calls + 1,
    )


@pytest.mark.parametrize("state", LaunchState)
def test_only_a_called_launch_can_be_settled(state: LaunchState) -> None:
    before = launch(state)
    answer: dict[str, Any] = {"adopted": 1, "reason": Reason.PARTIAL_LAUNCH, "message": "1 of 2"}
    if state is not LaunchState.CALLING:
        with pytest.raises(IllegalTransition, match=f"it is {state}"):
            launches.settled(before, now=NOW, **answer)
        return
    assert launches.settled(before, now=NOW, **answer) == replace(
        before, state=LaunchState.SETTLED, version=before.version + 1, closed_at=NOW, **answer
    )


def throttled(ordinal: int) -> Launch:
    settled = launch(LaunchState.SETTLED, ordinal, reason=Reason.THROTTLED)
    return replace(settled, closed_at=NOW + ordinal)


@pytest.mark.parametrize(
    ("many", "pause"), [(1, 2.0), (2, 4.0), (3, 8.0), (4, 16.0), (5, 30.0), (6, 30.0), (5000, 30.0)]
)
def test_after_throttled_launches_the_next_one_waits_longer_each_time(many: int, pause: float) -> None:
    before = launch(LaunchState.SETTLED, reason=Reason.CAPACITY)
    row = [throttled(ordinal) for ordinal in range(1, many + 1)]
    waits = launches.again_at([before, *row]) - (NOW + many)
    assert pause <= waits <= pause * 1.5
    assert launches.again_at([before, *row, before]) == launches.again_at([before]) == 0.0


def test_operations_that_are_throttled_at_once_do_not_come_again_at_once() -> None:
    rows = [replace(throttled(1), id=LaunchId(f"op-{number}.1")) for number in range(50)]
    assert len({launches.again_at([row]) for row in rows}) == 50


@pytest.mark.parametrize("state", LaunchState)
def test_only_the_repeat_of_a_call_can_be_refused_and_its_room_stays_held(state: LaunchState) -> None:
    before = launch(state)
    if state is not LaunchState.CALLING:
        with pytest.raises(IllegalTransition, match=f"cannot refuse launch op-1.1: it is {state}"):
            launches.refused(before, reason=Reason.QUOTA)
        return
    after = launches.refused(before, reason=Reason.QUOTA, message="full")
    assert after == replace(before, version=before.version + 1, reason=Reason.QUOTA, message="full")
    assert after.open and after.held == before.held


@pytest.mark.parametrize("state", LaunchState)
def test_an_open_launch_is_called_again_unless_a_repeat_was_refused(state: LaunchState) -> None:
    assert launch(state).pending is (state in CALLABLE)
    assert not launch(state, reason=Reason.QUOTA).pending


@pytest.mark.parametrize("state", LaunchState)
def test_an_open_launch_can_be_abandoned(state: LaunchState) -> None:
    before = launch(state)
    if state not in CALLABLE:
        with pytest.raises(IllegalTransition, match=f"it is {state}"):
            launches.abandoned(before, now=NOW, reason=Reason.CANCELLED)
        return
    assert launches.abandoned(before, now=NOW, reason=Reason.CANCELLED, message="late") == replace(
        before,
        state=LaunchState.ABANDONED,
        version=before.version + 1,
        closed_at=NOW,
        reason=Reason.CANCELLED,
        message="late",
    )


def test_a_settled_launch_that_went_well_has_no_reason() -> None:
    done = launches.settled(launch(LaunchState.CALLING), now=NOW, adopted=2)
    assert (done.reason, done.message) == (None, "")


@pytest.mark.parametrize("state", LaunchState)
@pytest.mark.parametrize("adopted", [0, 1, 2, 3])
def test_an_open_launch_holds_room_for_what_is_not_yet_recorded(state: LaunchState, adopted: int) -> None:
    asked = launch(state, count=2, adopted=adopted)
    expected = {0: 2, 1: 1, 2: 0, 3: 0}[adopted] if state in CALLABLE else 0
    assert asked.held == expected


def test_a_new_launch_is_planned_and_has_made_no_call() -> None:
    new = launch()
    assert (new.state, new.version, new.calls, new.adopted) == (LaunchState.PLANNED, 1, 0, 0)
    assert (new.called_at, new.closed_at, new.reason, new.message) == (None, None, None, "")


def test_a_launch_that_was_never_called_cannot_surprise() -> None:
    assert not _may_surprise(launch(), NOW)


@pytest.mark.parametrize(("late", "may"), [(-SMALLEST, True), (0.0, False), (SMALLEST, False)])
def test_a_call_may_surprise_until_it_timed_out_and_the_window_has_passed(late: float, may: bool) -> None:
    called = launches.calling(launch(), now=NOW)
    assert _may_surprise(called, NOW + TIMEOUT + WINDOW + late) is may


def test_the_latest_call_counts() -> None:
    repeated = launches.calling(launches.calling(launch(), now=NOW), now=NOW + 10)
    assert repeated.calls == 2
    assert _may_surprise(repeated, NOW + TIMEOUT + WINDOW)


def test_a_launch_is_named_by_its_place_and_its_token_derives_from_that() -> None:
    first = launch_id(OperationId("op-1"), 1)
    assert first == LaunchId("op-1.1") and first != launch_id(OperationId("op-1"), 2)
    assert launch_token(InstallationId("inst"), first) == "inst/op-1.1"


def _may_surprise(called: Launch, now: float) -> bool:
    return launches.may_surprise(called, now=now, call_timeout=TIMEOUT, visibility_window=WINDOW)
