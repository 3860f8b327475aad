from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.domain import operation as operations
from muster.domain.progress import UNKNOWN_CAP, Part, Progress, Tone, advanced, guessed, percent
from tests.domain.builders import NOW, modest, operation, progress

PART = Part(id="node-1", name="node-1", state="booting", tone=Tone.ACTIVE)
steps = st.builds(progress, st.integers(1, 5), st.floats(0, 100), message=st.sampled_from("abc"))


@modest
@given(st.lists(steps, min_size=1, max_size=12))
def test_whatever_is_published_steps_and_percent_never_go_back(published: list[Progress]) -> None:
    shown: Progress | None = None
    for new in published:
        following = advanced(shown, new)
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
    assert advanced(None, progress(3, 20.0)) == progress(3, 20.0)


def test_an_earlier_step_brings_only_its_message_and_its_parts() -> None:
    shown = progress(3, 40.0)
    new = progress(1, 50.0, message="a node was lost", parts=(PART,))
    assert advanced(shown, new) == replace(shown, message="a node was lost", parts=(PART,), percent=50.0)


def test_the_same_or_a_later_step_is_shown_with_the_highest_percent() -> None:
    for step in (3, 4):
        new = progress(step, 30.0, message="on", label="New label")
        assert advanced(progress(3, 40.0), new) == replace(new, percent=40.0)


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


@modest
@given(st.floats(-1e6, 1e6), st.floats(-1e3, 1e6))
def test_time_alone_never_fills_a_step(elapsed: float, expected: float) -> None:
    assert 0.0 <= guessed(elapsed=elapsed, expected=expected) <= UNKNOWN_CAP < 1


def test_a_guess_is_the_share_of_the_expected_time() -> None:
    assert guessed(elapsed=5, expected=10) == 0.5
    assert guessed(elapsed=-5, expected=10) == 0.0
    assert guessed(elapsed=10, expected=10) == UNKNOWN_CAP
    assert guessed(elapsed=5, expected=0) == 0.0
    assert guessed(elapsed=0.4, expected=0.5) == 0.8
