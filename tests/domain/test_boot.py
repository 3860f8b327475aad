"""What boots teach: derived from the limits, never from figures typed in."""

from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.domain.boot import (
    LEAST_BOOTS,
    LEAST_FOR_ETA,
    MARGIN,
    Boot,
    Mark,
    Span,
    by_type,
    distribution,
    expected,
    learn,
    spans,
    without_outliers,
)
from muster.domain.ids import NodeId
from tests.domain.builders import modest

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
