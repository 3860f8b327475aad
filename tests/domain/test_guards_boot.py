"""The arithmetic of boots, on both sides of every fence."""

from collections.abc import Sequence

import pytest

from muster.domain.boot import (
    LEAST_BOOTS,
    MARGIN,
    Boot,
    Distribution,
    Mark,
    Phase,
    Span,
    distribution,
    learn,
    spans,
    typical,
    without_outliers,
)
from muster.domain.ids import NodeId
from tests.domain.builders import NOW, SMALLEST


def boot(seconds: float, **phases: float) -> Boot:
    return Boot(
        node_id=NodeId("node-1"),
        template="web",
        revision=1,
        instance_type="large",
        booted_at=NOW,
        seconds=seconds,
        phases=tuple(Span(name=name, seconds=each) for name, each in phases.items()),
    )


# --- spans ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("back", [0.0, 5.0])
def test_a_clock_that_stood_still_or_went_back_makes_a_span_of_nothing(back: float) -> None:
    marks = [Mark(at=NOW, phase=Phase.JOINED), Mark(at=NOW - back, phase=Phase.BOOT_SCRIPT)]
    assert [span.seconds for span in spans(NOW, marks, NOW)] == [0.0, 0.0, back]


# --- what is typical ------------------------------------------------------------------------------


def test_the_middle_of_each_phase_is_taken_over_the_boots_that_had_it() -> None:
    boots = [boot(9, launch=1, script=5), boot(9, launch=2, script=6), boot(9, launch=9, other=7)]
    assert typical(boots) == (Span(name="launch", seconds=2), Span(name="script", seconds=5.5))


def test_phases_are_named_as_in_the_first_boot() -> None:
    assert [span.name for span in typical([boot(1, new=1), boot(1, old=1)])] == ["new"]


def test_no_boots_have_nothing_typical() -> None:
    assert typical([]) == ()


def test_one_boot_is_its_own_distribution() -> None:
    assert distribution([7.0]) == Distribution(count=1, p50=7.0, p95=7.0, p99=7.0, longest=7.0)


# --- what is learned ------------------------------------------------------------------------------


def test_the_one_longest_in_a_hundred_is_not_what_is_learned() -> None:
    seconds = [float(each) for each in range(1, 201)]
    learned = learn([boot(each) for each in seconds], ceiling=1000.0)
    assert learned is not None
    assert learned.seconds == 198 * MARGIN
    assert learned.basis == "p99 of 200 boots"


@pytest.mark.parametrize("side", [-SMALLEST, 0.0, SMALLEST])
def test_a_ceiling_is_named_only_if_it_was_met(side: float) -> None:
    wanted = 100 * MARGIN
    learned = learn([boot(100)] * LEAST_BOOTS, ceiling=wanted + side)
    assert learned is not None
    assert learned.seconds == min(wanted, wanted + side)
    suffix = ", up to max_provision_timeout" if side < 0 else ""
    assert learned.basis == f"p99 of {LEAST_BOOTS} boots{suffix}"


# --- outliers -------------------------------------------------------------------------------------

ALIKE = [100.0] * 39
"""No spread at all: a tenth of the middle stands for it."""
WIDE = [50.0] * 20 + [150.0] * 20
"""The middle half is 100 wide."""
EVEN = [float(each) for each in range(1, 21)]
"""With one more, the quarters are members: the 6th and the 16th."""


@pytest.mark.parametrize(
    ("seconds", "fence"),
    [(ALIKE, 100 + 3 * 10), (WIDE, 150 + 3 * 100), (EVEN, 16 + 3 * (16 - 6))],
    ids=["alike", "wide", "even"],
)
@pytest.mark.parametrize("side", [-SMALLEST, 0.0, SMALLEST])
def test_an_outlier_is_what_is_beyond_three_spreads(
    seconds: Sequence[float], fence: float, side: float
) -> None:
    kept = without_outliers([fence + side, *seconds])
    assert kept == (list(seconds) if side > 0 else [*seconds, fence + side])


@pytest.mark.parametrize(
    ("boots", "far", "dropped"),
    [(10, 1, True), (10, 2, False), (20, 1, True), (20, 2, False), (40, 2, True), (40, 3, False)],
)
def test_one_in_twenty_or_just_one_is_an_accident_and_more_are_not(
    boots: int, far: int, dropped: bool
) -> None:
    near, beyond = [100.0] * (boots - far), [1000.0] * far
    assert without_outliers([*beyond, *near]) == (near if dropped else near + beyond)
