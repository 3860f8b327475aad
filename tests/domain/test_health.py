"""The eleven rules of health, as far as one judge decides them: each limit on both of its sides."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.domain.deadlines import Limits
from muster.domain.health import PROBE_FAILURES, PROBE_ROUNDS, Health, HealthSource, Vitals, judge, silent_for
from muster.domain.ids import NodeId
from tests.domain.builders import NOW, SMALLEST, modest

LIMITS = Limits(stale_after=21.0, max_transition=119.0, probe_every=11.0, probe_recovery=7.0)
BAD = (Health.DEGRADED, Health.OFFLINE)
SIDES = (-SMALLEST, 0.0, SMALLEST)


def vitals(**fields: Any) -> Vitals:
    """A node that joined long ago, was just seen, and says nothing of itself."""
    given: dict[str, Any] = {
        "node_id": NodeId("node-1"),
        "boot_id": "boot-1",
        "joined_at": NOW - 1000,
        "seen_at": NOW - 1,
        "health": Health.READY,
        "health_since": NOW - 900,
        "health_version": 3,
    }
    return Vitals(**(given | fields))


def judged(at: Vitals, *, observing_since: float = 0.0, now: float = NOW) -> Health | None:
    """What it becomes; None: it stays as it is."""
    change = judge(at, now=now, observing_since=observing_since, limits=LIMITS)
    return None if change is None else change.after.health


def starting(**fields: Any) -> Vitals:
    return vitals(**({"health": Health.STARTING, "joined_at": NOW - 10} | fields))


# --- rule 2: its own word -------------------------------------------------------------------------


@pytest.mark.parametrize("word", [Health.READY, *BAD])
@pytest.mark.parametrize("before", Health)
def test_a_heartbeat_that_says_how_it_is_is_taken_at_its_word(before: Health, word: Health) -> None:
    change = judge(vitals(health=before, said=word), now=NOW, observing_since=0.0, limits=LIMITS)
    if before is word:
        assert change is None
    else:
        assert change is not None
        assert (change.after.health, change.after.health_source) == (word, HealthSource.HEARTBEAT)
        assert (change.after.health_since, change.after.health_version) == (NOW, 4)


@pytest.mark.parametrize("before", [Health.READY, Health.DEGRADED])
def test_starting_never_takes_a_node_back_from_ready_or_degraded(before: Health) -> None:
    for _ in range(5):
        assert judged(vitals(health=before, said=Health.STARTING, joined_at=NOW - 10)) is None


def test_a_new_reason_for_the_same_word_is_news_and_does_not_move_since_when() -> None:
    slow = vitals(
        health=Health.DEGRADED, health_reason="disk", said=Health.DEGRADED, said_reason="database is slow"
    )
    change = judge(slow, now=NOW, observing_since=0.0, limits=LIMITS)
    assert change is not None
    assert (change.after.health_reason, change.after.health_since) == ("database is slow", NOW - 900)
    assert judge(change.after, now=NOW + 1, observing_since=0.0, limits=LIMITS) is None


# --- rule 3: stuck in starting --------------------------------------------------------------------


@pytest.mark.parametrize("word", [Health.STARTING, None])
@pytest.mark.parametrize("side", SIDES)
def test_who_beats_for_longer_than_a_start_takes_is_ready(word: Health | None, side: float) -> None:
    stuck = starting(said=word, joined_at=NOW - LIMITS.max_transition - side)
    assert judged(stuck) == (Health.READY if side > 0 else None)


def test_stuck_and_silent_is_not_ready() -> None:
    stuck = starting(joined_at=NOW - 1000, seen_at=NOW - LIMITS.stale_after - SMALLEST)
    assert judged(stuck) is Health.OFFLINE


def test_an_app_that_joins_again_and_again_in_one_boot_is_rescued_all_the_same() -> None:
    """Joining again keeps `joined_at`; only a new boot moves it."""
    same_boot = starting(said=Health.STARTING, joined_at=NOW - LIMITS.max_transition - 1)
    new_boot = replace(same_boot, boot_id="boot-2", joined_at=NOW - 1)
    assert (judged(same_boot), judged(new_boot)) == (Health.READY, None)


# --- rules 5 and 6: silence -----------------------------------------------------------------------


@pytest.mark.parametrize("before", [Health.STARTING, Health.READY, Health.DEGRADED])
@pytest.mark.parametrize("side", SIDES)
def test_who_is_silent_for_too_long_is_offline(before: Health, side: float) -> None:
    silent = vitals(health=before, seen_at=NOW - LIMITS.stale_after - side)
    assert judged(replace(silent, joined_at=NOW - 100)) == (Health.OFFLINE if side > 0 else None)


@pytest.mark.parametrize("word", [None, *Health])
def test_silence_beats_every_word(word: Health | None) -> None:
    silent = vitals(said=word, seen_at=NOW - LIMITS.stale_after - 1)
    assert judged(silent) is Health.OFFLINE


def test_a_node_that_never_beat_is_silent_since_it_joined() -> None:
    assert judged(starting(seen_at=None, joined_at=NOW - LIMITS.stale_after)) is None
    assert judged(starting(seen_at=None, joined_at=NOW - LIMITS.stale_after - SMALLEST)) is Health.OFFLINE


def test_a_node_with_its_own_pace_is_given_its_own_time() -> None:
    slow = vitals(stale_after=60.0, seen_at=NOW - 60.0)
    assert judged(slow) is None
    assert judged(replace(slow, seen_at=NOW - 60.0 - SMALLEST)) is Health.OFFLINE


@pytest.mark.parametrize("side", SIDES)
def test_no_node_is_called_offline_for_time_in_which_no_replica_watched(side: float) -> None:
    unanswered = vitals(seen_at=NOW - 5000)
    back_since = NOW - LIMITS.stale_after - side
    assert judged(unanswered, observing_since=back_since) == (Health.OFFLINE if side > 0 else None)


@pytest.mark.parametrize(
    ("word", "age", "back"),
    [
        (None, 1000, Health.READY),
        (None, 10, Health.READY),
        (Health.READY, 10, Health.READY),
        (Health.DEGRADED, 10, Health.DEGRADED),
        (Health.STARTING, 10, Health.STARTING),
        (Health.STARTING, 1000, Health.READY),
        (Health.OFFLINE, 1000, None),
    ],
)
def test_who_beats_again_is_what_it_says_or_ready(
    word: Health | None, age: float, back: Health | None
) -> None:
    returned = vitals(health=Health.OFFLINE, health_reason="", said=word, joined_at=NOW - age)
    assert judged(returned) == back


def test_being_watched_again_is_no_sign_of_life() -> None:
    """The grace keeps a silent node from being called offline; it doesn't call one back."""
    assert judged(vitals(health=Health.OFFLINE, seen_at=NOW - 5000), observing_since=NOW - 1) is None


# --- rule 4: probes -------------------------------------------------------------------------------


def test_a_passed_probe_ends_a_start_at_once() -> None:
    assert judged(starting(probe_passing_since=NOW, probed_at=NOW)) is Health.READY


@pytest.mark.parametrize("side", SIDES)
def test_an_offline_node_must_pass_for_a_while_before_it_is_called_back(side: float) -> None:
    answering = vitals(
        health=Health.OFFLINE,
        seen_at=NOW - 500,
        probed_at=NOW,
        probe_passing_since=NOW - LIMITS.probe_recovery - side,
    )
    assert judged(answering) == (Health.READY if side >= 0 else None)


def test_a_probe_that_passes_keeps_a_silent_node() -> None:
    answering = vitals(seen_at=NOW - 500, probed_at=NOW, probe_passing_since=NOW - 50)
    assert judged(answering) is None


@pytest.mark.parametrize("side", SIDES)
def test_a_passed_probe_speaks_for_its_node_for_a_few_rounds(side: float) -> None:
    valid = PROBE_ROUNDS * LIMITS.probe_every
    answered = vitals(seen_at=NOW - 500, probed_at=NOW - valid - side, probe_passing_since=NOW - 400)
    assert judged(answered) == (Health.OFFLINE if side > 0 else None)


@pytest.mark.parametrize("failures", [PROBE_FAILURES - 1, PROBE_FAILURES, PROBE_FAILURES + 1])
def test_failed_probes_count_only_while_no_fresh_heartbeat_vetoes_them(failures: int) -> None:
    watched_again = NOW - LIMITS.stale_after / 2
    unanswered = vitals(seen_at=NOW - 500, probe_failures=failures, probed_at=NOW)
    down = Health.OFFLINE if failures >= PROBE_FAILURES else None
    assert judged(unanswered, observing_since=watched_again) == down
    assert judged(replace(unanswered, seen_at=NOW - LIMITS.stale_after)) is None


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("seen_at", [None, NOW - 500])
def test_probes_that_failed_before_the_watch_began_anew_do_not_count(
    seen_at: float | None, side: float
) -> None:
    back_since = NOW - LIMITS.stale_after / 2
    failed = vitals(seen_at=seen_at, probe_failures=PROBE_FAILURES, probed_at=back_since + side)
    assert judged(failed, observing_since=back_since) == (Health.OFFLINE if side >= 0 else None)


@pytest.mark.parametrize("word", BAD)
def test_no_probe_knows_better_than_a_nodes_own_bad_news(word: Health) -> None:
    said = vitals(health=word, said=word, probed_at=NOW, probe_passing_since=NOW - 500)
    assert judged(said) is None
    assert judged(replace(said, seen_at=NOW - 500)) is None


# --- rule 8, and all of them together -------------------------------------------------------------

times = st.none() | st.floats(NOW - 300, NOW)


anything = st.builds(
    vitals,
    health=st.sampled_from(Health),
    said=st.none() | st.sampled_from(Health),
    seen_at=times,
    joined_at=st.floats(NOW - 300, NOW),
    probe_failures=st.integers(0, 5),
    probe_passing_since=times,
    probed_at=times,
)


@modest
@given(anything, st.floats(NOW - 300, NOW))
def test_a_verdict_stands_until_something_new_is_known(at: Vitals, observing: float) -> None:
    change = judge(at, now=NOW, observing_since=observing, limits=LIMITS)
    if change is None:
        return
    assert change.before == at
    assert change.after.health_version == at.health_version + 1
    assert (change.after.seen_at, change.after.joined_at) == (at.seen_at, at.joined_at)
    assert judge(change.after, now=NOW, observing_since=observing, limits=LIMITS) is None


@modest
@given(
    st.sampled_from(Health),
    st.none() | st.sampled_from([Health.STARTING, Health.READY, Health.DEGRADED]),
    st.floats(0, LIMITS.stale_after),
)
def test_who_is_alive_and_past_its_start_is_ready_or_degraded(
    before: Health, word: Health | None, silence: float
) -> None:
    alive = vitals(health=before, said=word, seen_at=NOW - silence)
    assert (judged(alive) or before) in (Health.READY, Health.DEGRADED)


DEFAULTS = Limits()
LONG_AGO = NOW - 10 * DEFAULTS.max_transition


def just_seen(**fields: Any) -> Vitals:
    """It joined long ago and was seen just now."""
    given: dict[str, Any] = {"node_id": NodeId("node-1"), "joined_at": LONG_AGO, "seen_at": NOW}
    return Vitals(**(given | fields))


def silent(**fields: Any) -> Vitals:
    return just_seen(
        **({"seen_at": NOW - DEFAULTS.stale_after - SMALLEST, "health": Health.OFFLINE} | fields)
    )


def verdict_on(at: Vitals, *, observing_since: float = 0.0) -> tuple[Health, HealthSource, str] | None:
    change = judge(at, now=NOW, observing_since=observing_since, limits=DEFAULTS)
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
    at = just_seen(seen_at=seen_at, joined_at=joined_at)
    assert silent_for(at, now=NOW, observing_since=observing_since) == NOW - since


def test_what_was_never_heard_of_has_no_news() -> None:
    assert not Vitals(node_id=NodeId("node-1")).news


def test_the_reason_for_being_ready_is_the_node_s_own() -> None:
    ready = just_seen(said=Health.READY, said_reason="warm")
    assert verdict_on(ready) == (Health.READY, HealthSource.HEARTBEAT, "warm")


def test_who_falls_silent_is_told_to_have_and_for_how_long() -> None:
    quiet = just_seen(seen_at=NOW - 10 * DEFAULTS.stale_after, health=Health.READY)
    told = f"no heartbeat for {10 * DEFAULTS.stale_after:.0f} s"
    assert verdict_on(quiet) == (Health.OFFLINE, HealthSource.RECONCILE, told)


def test_who_fails_its_probes_is_told_to_have() -> None:
    failing = just_seen(seen_at=None, health=Health.READY, probe_failures=PROBE_FAILURES, probed_at=NOW)
    told = f"{PROBE_FAILURES} probes in a row failed"
    assert verdict_on(failing, observing_since=NOW) == (Health.OFFLINE, HealthSource.PROBE, told)


@pytest.mark.parametrize("said", [None, Health.STARTING, Health.READY])
@pytest.mark.parametrize("side", [-SMALLEST, 0.0, SMALLEST])
def test_a_silent_service_is_back_by_its_probes_alone_and_not_by_an_old_word(
    said: Health | None, side: float
) -> None:
    passing = DEFAULTS.probe_recovery + side
    back = silent(said=said, probe_passing_since=NOW - passing, probed_at=NOW)
    ready = (Health.READY, HealthSource.PROBE, "it answers probes")
    assert verdict_on(back) == (ready if passing >= DEFAULTS.probe_recovery else None)


@pytest.mark.parametrize("said", [None, Health.STARTING])
@pytest.mark.parametrize("probed_at", [None, NOW])
def test_a_degraded_node_stays_so_until_it_says_otherwise(
    said: Health | None, probed_at: float | None
) -> None:
    degraded = just_seen(
        health=Health.DEGRADED, said=said, probed_at=probed_at, probe_passing_since=probed_at
    )
    assert verdict_on(degraded) is None


def test_who_is_over_its_start_is_told_to_be_and_since_when() -> None:
    starting = just_seen(health=Health.STARTING)
    told = f"heartbeats arrive, {NOW - LONG_AGO:.0f} s after it joined"
    assert verdict_on(starting) == (Health.READY, HealthSource.RECONCILE, told)


def test_who_beats_and_never_joined_is_not_over_its_start() -> None:
    assert verdict_on(just_seen(joined_at=None, health=Health.STARTING)) is None


@pytest.mark.parametrize(("said", "back"), [(None, Health.READY), (Health.STARTING, Health.STARTING)])
def test_who_beats_again_is_told_to(said: Health | None, back: Health) -> None:
    again = just_seen(joined_at=NOW, health=Health.OFFLINE, said=said)
    assert verdict_on(again) == (back, HealthSource.HEARTBEAT, "it beats again")
