"""What boots teach: derived from the limits, never from figures typed in."""

from collections.abc import Sequence
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.domain.boot import (
    LEAST_BOOTS,
    LEAST_FOR_ETA,
    MARGIN,
    Boot,
    Distribution,
    Mark,
    Phase,
    Span,
    by_type,
    distribution,
    expected,
    learn,
    spans,
    typical,
    without_outliers,
)
from muster.domain.ids import NodeId
from tests.domain.builders import NOW, SMALLEST, modest

FAR = 1e9


def boot(seconds: float, n: int = 1, instance_type: str = "m5") -> Boot:
    return Boot(
        node_id=NodeId(f"node-{n}"),
        template="web",
        revision=1,
        instance_type=instance_type,
        booted_at=float(n),
        seconds=seconds,
        phases=(),
    )


def boots(*seconds: float) -> list[Boot]:
    return [boot(each, n) for n, each in enumerate(seconds)]


@pytest.mark.parametrize("count", [0, LEAST_BOOTS - 1, LEAST_BOOTS])
def test_a_tail_is_learned_only_from_enough_boots(count: int) -> None:
    learned = learn(boots(*[400.0] * count), ceiling=FAR)
    assert (learned is not None) == (count >= LEAST_BOOTS)


def test_what_is_learned_is_the_tail_with_a_margin_and_says_its_basis() -> None:
    learned = learn(boots(*(400.0 + n for n in range(57))), ceiling=FAR)
    assert learned is not None
    assert learned.seconds == 456.0 * MARGIN
    assert learned.basis == "p99 of 57 boots"


def test_what_is_learned_never_passes_the_ceiling() -> None:
    learned = learn(boots(*[400.0] * LEAST_BOOTS), ceiling=500.0)
    assert learned is not None
    assert learned.seconds == 500.0
    assert "max_provision_timeout" in learned.basis


def test_one_far_outlier_teaches_nothing() -> None:
    usual = [400.0 + n for n in range(LEAST_BOOTS)]
    assert learn(boots(*usual, 1_000_000.0), ceiling=FAR) == learn(boots(*usual), ceiling=FAR)


def test_a_second_population_is_no_outlier() -> None:
    """Every tenth boot pulls an image: that is how it is, not an accident."""
    usual, slow = [60.0] * 36, [600.0] * 4
    learned = learn(boots(*usual, *slow), ceiling=FAR)
    assert learned is not None
    assert learned.seconds == 600.0 * MARGIN


@modest
@given(st.lists(st.floats(1, 10_000), min_size=LEAST_BOOTS, max_size=100))
def test_outliers_are_few_and_only_from_the_top(seconds: list[float]) -> None:
    kept = without_outliers(seconds)
    assert len(seconds) - len(kept) <= max(1, len(seconds) // 20)
    assert kept == sorted(seconds)[: len(kept)]


@pytest.mark.parametrize("count", [LEAST_FOR_ETA - 1, LEAST_FOR_ETA])
def test_what_is_to_be_expected_is_the_middle_or_nothing(count: int) -> None:
    seconds = [10.0, 20.0, 90.0][:count]
    assert expected(boots(*seconds)) == (median(seconds) if count >= LEAST_FOR_ETA else None)


def test_boots_are_told_apart_by_their_instance_type() -> None:
    first, second, third = boot(1, 1, "m5"), boot(2, 2, "c5"), boot(3, 3, "m5")
    assert by_type([first, second, third]) == {"m5": (first, third), "c5": (second,)}


def test_a_distribution_names_values_that_were_seen() -> None:
    assert distribution([]) is None
    found = distribution([float(n) for n in range(1, 101)])
    assert found is not None
    assert (found.count, found.p50, found.p95, found.p99, found.longest) == (100, 50.5, 95.0, 99.0, 100.0)


def test_the_time_of_a_boot_is_told_from_mark_to_mark() -> None:
    marks = [
        Mark(at=12.0, phase="joined"),
        Mark(at=13.0, phase="boot_script"),
        Mark(at=20.0, phase="boot_script", step="pull the image"),
    ]
    assert spans(10.0, marks, 127.0) == (
        Span(name="launch", seconds=2.0),
        Span(name="joined", seconds=1.0),
        Span(name="boot_script", seconds=7.0),
        Span(name="boot_script: pull the image", seconds=107.0),
    )
    ended = spans(10.0, [*marks, Mark(at=127.0, phase="booted")], 127.0)
    assert ended == spans(10.0, marks, 127.0)
    assert sum(each.seconds for each in ended) == 117.0


def phased(seconds: float, **phases: float) -> Boot:
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
    boots = [phased(9, launch=1, script=5), phased(9, launch=2, script=6), phased(9, launch=9, other=7)]
    assert typical(boots) == (Span(name="launch", seconds=2), Span(name="script", seconds=5.5))


def test_phases_are_named_as_in_the_first_boot() -> None:
    assert [span.name for span in typical([phased(1, new=1), phased(1, old=1)])] == ["new"]


def test_no_boots_have_nothing_typical() -> None:
    assert typical([]) == ()


def test_one_boot_is_its_own_distribution() -> None:
    assert distribution([7.0]) == Distribution(count=1, p50=7.0, p95=7.0, p99=7.0, longest=7.0)


# --- what is learned ------------------------------------------------------------------------------


def test_the_one_longest_in_a_hundred_is_not_what_is_learned() -> None:
    seconds = [float(each) for each in range(1, 201)]
    learned = learn([phased(each) for each in seconds], ceiling=1000.0)
    assert learned is not None
    assert learned.seconds == 198 * MARGIN
    assert learned.basis == "p99 of 200 boots"


@pytest.mark.parametrize("side", [-SMALLEST, 0.0, SMALLEST])
def test_a_ceiling_is_named_only_if_it_was_met(side: float) -> None:
    wanted = 100 * MARGIN
    learned = learn([phased(100)] * LEAST_BOOTS, ceiling=wanted + side)
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
