"""How often nodes beat, and how long their silence must last."""

import pytest

from muster.domain.deadlines import Limits, Watch
from muster.domain.pace import HEARD_WITHIN, INTERVAL_MOST, MARGIN, Pace, interval, stale_after

LIMITS = Limits()
LEAST, RATE = LIMITS.beat_seconds, LIMITS.beats_per_second


@pytest.mark.parametrize(
    ("nodes", "seconds"),
    [
        (0, LEAST),
        (int(LEAST * RATE), LEAST),
        (int(LEAST * RATE) + 1, 2 * LEAST),
        (int(2 * LEAST * RATE), 2 * LEAST),
        (10_000, 20.0),
        (10**6, INTERVAL_MOST),
    ],
)
def test_beats_slow_down_by_whole_steps_so_that_the_rate_is_bounded(nodes: int, seconds: float) -> None:
    assert interval(nodes, least=LEAST, rate=RATE) == seconds
    assert nodes / seconds <= RATE or seconds == INTERVAL_MOST


def test_an_interval_that_is_set_above_the_most_is_kept() -> None:
    assert interval(10, least=90.0, rate=RATE) == 90.0


def test_a_few_nodes_more_or_less_do_not_change_the_pace_again_and_again() -> None:
    limit = int(LEAST * RATE)
    assert interval(limit + 1, least=LEAST, rate=RATE, present=LEAST) == 2 * LEAST
    assert interval(limit, least=LEAST, rate=RATE, present=2 * LEAST) == 2 * LEAST
    assert interval(int(MARGIN * limit), least=LEAST, rate=RATE, present=2 * LEAST) == LEAST
    assert interval(int(MARGIN * limit) + 1, least=LEAST, rate=RATE, present=2 * LEAST) == 2 * LEAST


def test_a_longer_interval_is_allowed_for_at_once() -> None:
    slower = Pace.of(5.0).changed(20.0, now=100.0)
    assert (slower.beat_seconds, slower.in_use(100.0), slower.in_use(10_000.0)) == (20.0, 20.0, 20.0)


def test_a_shorter_interval_counts_when_every_node_keeps_it() -> None:
    quicker = Pace.of(20.0).changed(5.0, now=100.0)
    settled = 100.0 + HEARD_WITHIN + 20.0
    assert quicker.beat_seconds == 5.0
    assert quicker.in_use(100.0) == quicker.in_use(settled - 0.1) == 20.0
    assert quicker.in_use(settled) == 5.0


def test_an_interval_that_goes_up_and_down_keeps_the_longest_that_was_told() -> None:
    pace = Pace.of(20.0).changed(5.0, now=100.0).changed(10.0, now=110.0)
    assert pace.in_use(110.0 + HEARD_WITHIN) == 20.0
    assert pace.in_use(110.0 + HEARD_WITHIN + 20.0) == 10.0
    assert pace.changed(10.0, now=500.0) is pace


def test_silence_counts_after_three_beats_of_the_pace_that_nodes_use() -> None:
    watch = Watch(since=0.0, pace=Pace.of(20.0).changed(5.0, now=100.0))
    slow, quick = watch.limits(LIMITS, now=100.0), watch.limits(LIMITS, now=1000.0)
    assert (slow.beat_seconds, slow.stale_after) == (5.0, stale_after(20.0))
    assert quick is LIMITS
    assert watch.beat_seconds(LIMITS) == 5.0, "what they are told changes at once"
    assert slow.silence_limit == stale_after(20.0) + LIMITS.dead_after


def test_a_silence_that_the_operator_allows_is_never_made_shorter() -> None:
    patient = Limits(stale_after=300.0)
    assert Watch(since=0.0, pace=Pace.of(20.0)).limits(patient, now=0.0).stale_after == 300.0


def test_without_a_pace_the_limits_are_as_they_are_set() -> None:
    assert Watch(since=0.0).limits(LIMITS, now=0.0) is LIMITS
    assert Watch(since=0.0).beat_seconds(LIMITS) == LIMITS.beat_seconds


def test_a_lost_node_is_noticed_within_30_s_of_1000_and_90_s_of_10000() -> None:
    looked, dated = 10.0, 2.0  # the status duty, and how much older than it is a beat may look
    for nodes, within in ((1000, 30.0 + dated), (10_000, 90.0)):
        watch = Watch(since=0.0, pace=Pace.of(interval(nodes, least=LEAST, rate=RATE)))
        assert watch.limits(LIMITS, now=0.0).stale_after + looked + dated <= within
