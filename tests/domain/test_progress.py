import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.domain import operation as operations
from muster.domain.operation import OperationChange, Status, Verdict
from muster.domain.progress import (
    ON_TIME,
    Motion,
    Part,
    Progress,
    Tone,
    advanced,
    crept,
    percent,
    percent_at,
    stopped,
)
from muster.domain.reasons import Reason
from tests.domain.builders import NOW, modest, operation, progress

PART = Part(id="node-1", name="node-1", state="booting", tone=Tone.ACTIVE)
VECTORS = Path(__file__).parents[2] / "web" / "src" / "testing" / "motion.json"
steps = st.builds(progress, st.integers(1, 5), st.floats(0, 100), message=st.sampled_from("abc"))
motions = st.builds(
    Motion,
    low=st.floats(40, 60),
    high=st.just(60.0),
    since=st.floats(NOW - 500, NOW + 500),
    expected=st.floats(0, 900),
)
moving = st.builds(progress, st.just(3), st.just(40.0), motion=st.none() | motions)


@modest
@given(st.lists(steps, min_size=1, max_size=12))
def test_whatever_is_published_steps_and_percent_never_go_back(published: list[Progress]) -> None:
    shown: Progress | None = None
    for new in published:
        following = advanced(shown, new, now=NOW)
        if shown is not None:
            assert following.step >= shown.step
            assert following.percent >= shown.percent
        assert following.step >= new.step and following.percent >= new.percent
        assert following.message == new.message
        shown = following


@modest
@given(st.lists(steps, min_size=1, max_size=12))
def test_no_sequence_of_publishes_is_refused_by_the_operation(published: list[Progress]) -> None:
    current = operation()
    for new in published:
        current = operations.progressed(current, new, now=NOW).after
    assert current.progress is not None
    assert current.progress.step == max(new.step for new in published)
    assert current.progress.percent == max(new.percent for new in published)


def test_progress_starts_at_nothing_and_a_part_stands_for_one() -> None:
    bare = Progress(step=1, total_steps=5, phase="selecting", label="Selecting")
    assert (bare.percent, bare.message, bare.parts) == (0.0, "", ())
    assert (PART.count, PART.detail, PART.since) == (1, "", None)


def test_the_first_progress_is_shown_as_it_is() -> None:
    assert advanced(None, progress(3, 20.0), now=NOW) == progress(3, 20.0)


def test_an_earlier_step_brings_only_its_message_and_its_parts() -> None:
    shown = progress(3, 40.0)
    new = progress(1, 50.0, message="a node was lost", parts=(PART,))
    assert advanced(shown, new, now=NOW) == replace(
        shown, message="a node was lost", parts=(PART,), percent=50.0
    )


def test_the_same_or_a_later_step_is_shown_with_the_highest_percent() -> None:
    for step in (3, 4):
        new = progress(step, 30.0, message="on", label="New label")
        assert advanced(progress(3, 40.0), new, now=NOW) == replace(new, percent=40.0)


@modest
@given(st.integers(1, 9), st.integers(0, 8), st.floats(-5, 5))
def test_percent_stays_inside_its_step(step: int, more: int, fraction: float) -> None:
    total = step + more
    value = percent(step=step, total_steps=total, fraction=fraction)
    assert round(100 * (step - 1) / total, 2) <= value <= round(100 * step / total, 2)


@pytest.mark.parametrize(
    ("step", "fraction", "value"),
    [(1, 0.0, 0.0), (1, -1.0, 0.0), (1, 1.0, 25.0), (1, 1.5, 25.0), (2, 0.5, 37.5), (4, 1.0, 100.0)],
)
def test_percent_counts_the_steps_before_and_the_share_of_this_one(
    step: int, fraction: float, value: float
) -> None:
    assert percent(step=step, total_steps=4, fraction=fraction) == value


def test_percent_has_two_decimals() -> None:
    assert percent(step=1, total_steps=3, fraction=1.0) == 33.33


# --- the motion of the bar ------------------------------------------------------------------------


@modest
@given(st.floats(-1e6, 1e6), st.floats(-1e3, 1e6))
def test_time_alone_never_fills_a_step(elapsed: float, expected: float) -> None:
    assert 0.0 <= crept(elapsed, expected) < 1


@pytest.mark.parametrize("expected", [5.0, 45.0, 450.0])
def test_a_bar_moves_in_every_second_up_to_four_times_the_expected_time(expected: float) -> None:
    moved = Motion(low=40.0, high=60.0, since=NOW, expected=expected)
    places = [moved.at(NOW + second) for second in range(int(4 * expected))]
    assert all(later > earlier for earlier, later in pairwise(places))
    assert places[0] == 40.0 and places[-1] < 60.0


@pytest.mark.parametrize(
    ("elapsed", "share"), [(-1, 0), (0, 0), (50, ON_TIME / 2), (99.99, 0.69993), (100, ON_TIME), (200, 0.91)]
)
def test_a_bar_is_at_its_share_when_the_expected_time_is_over(elapsed: float, share: float) -> None:
    assert crept(elapsed, 100.0) == pytest.approx(share)
    assert crept(elapsed, 0.0) == 0.0


def test_its_speed_has_no_jump_when_it_becomes_late() -> None:
    before, at, after = (crept(seconds, 100.0) for seconds in (99.9, 100.0, 100.1))
    assert at - before == pytest.approx(after - at, rel=0.01)


def test_page_and_domain_have_the_same_formula() -> None:
    for case in json.loads(VECTORS.read_text()):
        moved = Motion(low=case["from"], high=case["to"], since=NOW, expected=case["expected"])
        assert moved.at(NOW + case["elapsed"]) == pytest.approx(case["percent"], abs=1e-6)


@modest
@given(st.lists(st.tuples(moving, st.floats(0, 60)), min_size=1, max_size=12))
def test_whatever_motion_is_published_the_bar_never_goes_back(
    published: list[tuple[Progress, float]],
) -> None:
    shown: Progress | None = None
    now = NOW
    for new, passed in published:
        now += passed
        before = 0.0 if shown is None else percent_at(shown, now)
        shown = advanced(shown, new, now=now)
        assert percent_at(shown, now) >= before
        assert shown.percent == percent_at(shown, now)


MOVING = progress(3, 40.0, motion=Motion(low=40.0, high=60.0, since=NOW - 50, expected=100.0))


def test_of_two_motions_the_one_that_is_ahead_goes_on() -> None:
    behind = replace(MOVING, motion=Motion(low=40.0, high=60.0, since=NOW, expected=100.0))
    ahead = replace(MOVING, motion=Motion(low=50.0, high=60.0, since=NOW, expected=100.0))
    assert advanced(MOVING, behind, now=NOW).motion == MOVING.motion
    assert advanced(MOVING, ahead, now=NOW).motion == ahead.motion
    assert advanced(MOVING, MOVING, now=NOW).motion == MOVING.motion


def test_a_bar_that_stood_moves_on_from_where_it_stood() -> None:
    stood = stopped(MOVING, now=NOW)
    assert (stood.percent, stood.motion) == (47.0, None)
    assert percent_at(stood, NOW + 500) == 47.0
    on = advanced(stood, MOVING, now=NOW + 10)
    assert on.motion is not None and percent_at(on, NOW + 10) > 47.0
    late = replace(MOVING, motion=Motion(low=40.0, high=60.0, since=NOW + 10, expected=100.0))
    again = advanced(stood, late, now=NOW + 10)
    assert again.motion == Motion(low=47.0, high=60.0, since=NOW + 10, expected=100.0)


def test_a_later_step_begins_its_own_motion() -> None:
    following = progress(4, 60.0, motion=Motion(low=60.0, high=80.0, since=NOW, expected=2.0))
    assert advanced(MOVING, following, now=NOW) == following


@pytest.mark.parametrize("stop", ["cancel", "fail", "queue", "end"])
def test_a_bar_stands_when_the_work_is_told_to_stop(stop: str) -> None:
    working = replace(operation(), progress=MOVING)
    verdict = Verdict(reason=Reason.CAPACITY, message="none")
    changes: dict[str, Callable[[], OperationChange | None]] = {
        "cancel": lambda: operations.cancel_requested(working, now=NOW),
        "fail": lambda: operations.failing(working, verdict, now=NOW),
        "queue": lambda: operations.queued(working, MOVING, now=NOW),
        "end": lambda: operations.ended(working, Status.FAILED, now=NOW, progress=None, verdict=verdict),
    }
    change = changes[stop]()
    assert change is not None and change.after.progress is not None
    assert (change.after.progress.percent, change.after.progress.motion) == (47.0, None)
    if stop in ("cancel", "fail"):
        again = operations.progressed(change.after, MOVING, now=NOW + 30).after.progress
        assert again is not None and again.motion is None
