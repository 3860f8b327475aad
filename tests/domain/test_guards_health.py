"""Rules of health that one mutant or another could break unseen: each row stands on one side of a limit."""

from typing import Any

import pytest

from muster.domain.deadlines import Limits
from muster.domain.health import PROBE_FAILURES, Health, HealthSource, Vitals, judge, silent_for
from muster.domain.ids import NodeId
from tests.domain.builders import NOW, SMALLEST

LIMITS = Limits()
LONG_AGO = NOW - 10 * LIMITS.max_transition


def vitals(**fields: Any) -> Vitals:
    """It joined long ago and was seen just now."""
    given: dict[str, Any] = {"node_id": NodeId("node-1"), "joined_at": LONG_AGO, "seen_at": NOW}
    return Vitals(**(given | fields))


def silent(**fields: Any) -> Vitals:
    return vitals(**({"seen_at": NOW - LIMITS.stale_after - SMALLEST, "health": Health.OFFLINE} | fields))


def judged(at: Vitals, *, observing_since: float = 0.0) -> tuple[Health, HealthSource, str] | None:
    change = judge(at, now=NOW, observing_since=observing_since, limits=LIMITS)
    if change is None:
        return None
    return change.after.health, change.after.health_source, change.after.health_reason


@pytest.mark.parametrize(
    ("seen_at", "joined_at", "observing_since", "since"),
    [
        (NOW - 1, NOW - 2, NOW - 3, NOW - 1),
        (NOW - 2, NOW - 1, NOW - 3, NOW - 1),
        (NOW - 3, NOW - 2, NOW - 1, NOW - 1),
        (None, NOW - 2, NOW - 3, NOW - 2),
        (NOW - 2, None, NOW - 3, NOW - 2),
        (None, None, NOW - 3, NOW - 3),
        (None, None, 0.0, 0.0),
    ],
)
def test_silence_counts_from_the_latest_of_beat_join_and_watch(
    seen_at: float | None, joined_at: float | None, observing_since: float, since: float
) -> None:
    at = vitals(seen_at=seen_at, joined_at=joined_at)
    assert silent_for(at, now=NOW, observing_since=observing_since) == NOW - since


def test_what_was_never_heard_of_has_no_news() -> None:
    assert not Vitals(node_id=NodeId("node-1")).news


def test_the_reason_for_being_ready_is_the_node_s_own() -> None:
    ready = vitals(said=Health.READY, said_reason="warm")
    assert judged(ready) == (Health.READY, HealthSource.HEARTBEAT, "warm")


def test_who_falls_silent_is_told_to_have_and_for_how_long() -> None:
    quiet = vitals(seen_at=NOW - 10 * LIMITS.stale_after, health=Health.READY)
    told = f"no heartbeat for {10 * LIMITS.stale_after:.0f} s"
    assert judged(quiet) == (Health.OFFLINE, HealthSource.RECONCILE, told)


def test_who_fails_its_probes_is_told_to_have() -> None:
    failing = vitals(seen_at=None, health=Health.READY, probe_failures=PROBE_FAILURES, probed_at=NOW)
    told = f"{PROBE_FAILURES} probes in a row failed"
    assert judged(failing, observing_since=NOW) == (Health.OFFLINE, HealthSource.PROBE, told)


@pytest.mark.parametrize("said", [None, Health.STARTING, Health.READY])
@pytest.mark.parametrize("side", [-SMALLEST, 0.0, SMALLEST])
def test_a_silent_service_is_back_by_its_probes_alone_and_not_by_an_old_word(
    said: Health | None, side: float
) -> None:
    passing = LIMITS.probe_recovery + side
    back = silent(said=said, probe_passing_since=NOW - passing, probed_at=NOW)
    ready = (Health.READY, HealthSource.PROBE, "it answers probes")
    assert judged(back) == (ready if passing >= LIMITS.probe_recovery else None)


@pytest.mark.parametrize("said", [None, Health.STARTING])
@pytest.mark.parametrize("probed_at", [None, NOW])
def test_a_degraded_node_stays_so_until_it_says_otherwise(
    said: Health | None, probed_at: float | None
) -> None:
    degraded = vitals(health=Health.DEGRADED, said=said, probed_at=probed_at, probe_passing_since=probed_at)
    assert judged(degraded) is None


def test_who_is_over_its_start_is_told_to_be_and_since_when() -> None:
    starting = vitals(health=Health.STARTING)
    told = f"beating, {NOW - LONG_AGO:.0f} s after it joined"
    assert judged(starting) == (Health.READY, HealthSource.RECONCILE, told)


def test_who_beats_and_never_joined_is_not_over_its_start() -> None:
    assert judged(vitals(joined_at=None, health=Health.STARTING)) is None


@pytest.mark.parametrize(("said", "back"), [(None, Health.READY), (Health.STARTING, Health.STARTING)])
def test_who_beats_again_is_told_to(said: Health | None, back: Health) -> None:
    again = vitals(joined_at=NOW, health=Health.OFFLINE, said=said)
    assert judged(again) == (back, HealthSource.HEARTBEAT, "it beats again")
