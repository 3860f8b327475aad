"""Each promise about boots, health and absence can break: a crafted history breaks exactly that one."""

import pytest

from muster.domain.events import Draft, Entity
from muster.domain.plain import Plain
from muster.domain.template import TemplateSpec
from muster.simulation.invariants.boot_rules import SWEPT
from muster.simulation.invariants.health_rules import NOTICED, SILENCE
from muster.simulation.invariants.truth import DATED, GAP, SETTLING, SIMULATED, Absence, Presence, Truth
from tests.simulation.court import UNBOUND, Court, attach, commit

TIMEOUT = 100.0
STALL = 60.0
CEILING = 2 * TIMEOUT
LITTLE = 0.5


@pytest.fixture
def court() -> Court:
    """A provision whose one node has joined and boots; nothing is broken so far."""
    spec = TemplateSpec(
        name="ci",
        provider="simulated",
        max_nodes=2,
        provision_timeout=TIMEOUT,
        stall_after=STALL,
        rescue_window=30.0,
    )
    made = Court(spec=spec)
    made.has_operation()
    made.has_launch()
    made.has_machine()
    made.truths["i-1"] = Truth(reached_at=made.now, moved_at=made.now)
    made.has_node(
        booted_at=None, joined_at=made.now, deadline_at=made.now + TIMEOUT, deadline_source="template"
    )
    assert made.broken is None
    return made


@pytest.fixture
def truth(court: Court) -> Truth:
    return court.truths["i-1"]


def later(court: Court, seconds: float) -> None:
    court.now += seconds


def feels(court: Court, health: str, *, version: int = 1, reason: str = "", node_id: str = "node-1") -> None:
    changes: dict[str, Plain] = {
        "health": health,
        "health_reason": reason,
        "health_source": "reconcile",
        "health_since": 0.0,
    }
    court.see(Draft(entity=Entity.HEALTH, entity_id=node_id, version=version, name=health, changes=changes))
    court.versions[node_id] = court.judge.records.nodes[node_id]["version"]


def fails(court: Court, reason: str = "boot_stalled") -> None:
    court.node("fail", state="failed", reason=reason, entered_at=court.now, deadline_at=court.now + 45.0)


def idles(court: Court) -> None:
    court.node("booted", booted_at=court.now)
    court.node("pool_in", state="idle", deadline_at=court.now + 300.0, **UNBOUND)
    assert court.broken is None


# --- boots ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "patience"), [("boot_stalled", STALL), ("boot_timeout", TIMEOUT / 2)], ids=str
)
@pytest.mark.parametrize(
    ("more", "broken"), [(-LITTLE, "no_advancing_boot_is_failed"), (LITTLE, None)], ids=["advancing", "not"]
)
def test_a_boot_that_is_given_up_while_it_advances(
    court: Court, reason: str, patience: float, more: float, broken: str | None
) -> None:
    later(court, TIMEOUT)
    court.truths["i-1"].advance_at = court.now - (patience - DATED) - more
    fails(court, reason)
    assert court.broken == broken


def test_a_boot_at_its_ceiling_may_be_given_up(court: Court, truth: Truth) -> None:
    later(court, CEILING)
    truth.advance_at = court.now
    fails(court, "boot_timeout")
    assert court.broken is None


def test_a_hard_limit_is_hard(court: Court, truth: Truth) -> None:
    court.node("extend", deadline_source="request")
    later(court, TIMEOUT)
    truth.advance_at = court.now
    fails(court, "boot_timeout")
    assert court.broken is None


@pytest.mark.parametrize(
    ("more", "broken"), [(LITTLE, "who_stands_still_is_failed"), (-LITTLE, None)], ids=["stuck", "not yet"]
)
def test_a_boot_that_stands_still_for_too_long(court: Court, more: float, broken: str | None) -> None:
    later(court, STALL + SWEPT + more)
    court.presence.disturbed_at = 0.0
    court.truths["i-1"].reached_at = court.now
    court.judge.tick(30.0, calm=False)
    assert court.broken is None
    court.judge.tick(30.0, calm=True)
    assert court.broken == broken


def test_a_standstill_counts_from_when_all_was_calm(court: Court) -> None:
    later(court, STALL + SWEPT + LITTLE)
    court.presence.disturbed_at = court.now - SETTLING
    court.judge.tick(30.0, calm=True)
    assert court.broken is None


@pytest.mark.parametrize(
    ("more", "broken"), [(2.0, "extensions_have_a_ceiling"), (0.0, None)], ids=["beyond", "up to"]
)
def test_an_extension_beyond_the_ceiling(court: Court, more: float, broken: str | None) -> None:
    court.node("extend", deadline_at=court.now + CEILING + more, deadline_source="extension")
    assert court.broken == broken


@pytest.mark.parametrize(
    ("reason", "late", "broken"),
    [
        ("boot_stalled", 30.0, None),
        ("boot_stalled", 30.0 + LITTLE, "only_the_late_are_rescued"),
        ("machine_gone", 1.0, "only_the_late_are_rescued"),
    ],
)
def test_a_rescue(court: Court, reason: str, late: float, broken: str | None) -> None:
    fails(court, reason)
    later(court, late)
    court.node("rescued", state="releasing", booted_at=court.now)
    assert court.broken == broken


@pytest.mark.parametrize(("since", "broken"), [(0.0, None), (LITTLE, "only_the_late_are_rescued")])
def test_a_rescue_in_the_grace_after_a_disturbance(court: Court, since: float, broken: str | None) -> None:
    fails(court, "boot_stalled")
    later(court, 300.0)
    court.presence.disturbed_at = court.now - SETTLING - SIMULATED.return_grace - since
    court.node("rescued", state="releasing", booted_at=court.now)
    assert court.broken == broken


def test_a_node_that_was_given_up_runs_under_its_old_assignment(court: Court) -> None:
    fails(court)
    court.node("rescued", state="releasing", booted_at=court.now)
    court.node("clean", state="idle", **UNBOUND)
    court.judge.nodes._assigned.clear()
    court.node("claim", state="claimed", operation_id="op-1", assignment_id="as-1", owner="me", run="run-1")
    assert court.broken == "given_up_is_given_up"


def test_a_rescued_node_serves_another_assignment(court: Court) -> None:
    fails(court)
    court.node("rescued", state="releasing", booted_at=court.now)
    court.node("clean", state="idle", **UNBOUND)
    court.node("claim", state="claimed", operation_id="op-1", assignment_id="as-2", owner="me", run="run-1")
    assert court.broken is None


def test_a_commit_of_what_was_given_up(court: Court) -> None:
    court.judge.boots._given_up["node-1"] = "as-1"
    court.judge.boots.check = lambda *_: None  # type: ignore[method-assign]
    court.node("booted", booted_at=court.now)
    commit(court)
    assert court.broken == "given_up_is_given_up"


def test_a_node_that_fails_twice(court: Court) -> None:
    court.judge.boots._given_up["node-1"] = None
    fails(court)
    assert court.broken == "one_failure_per_node"


def test_a_failure_that_is_diagnosed_twice(court: Court) -> None:
    draft = Draft(entity=Entity.DIAGNOSIS, entity_id="node-1", version=1, name="collected", changes={})
    court.see(draft)
    assert court.broken is None
    court.see(draft)
    assert court.broken == "one_diagnosis_per_node"


# --- health -----------------------------------------------------------------------------------------


def test_health_that_changes_as_it_should(court: Court) -> None:
    feels(court, "ready")
    feels(court, "offline", version=2, reason="silent")
    feels(court, "starting", version=3, reason="it beats again")
    feels(court, "ready", version=4)
    assert court.broken is None


def test_health_whose_versions_have_a_gap(court: Court) -> None:
    feels(court, "ready", version=2)
    assert court.broken == "feed_is_complete"


def test_health_that_does_not_change(court: Court) -> None:
    feels(court, "ready")
    feels(court, "ready", version=2)
    assert court.broken == "health_events_are_changes"


@pytest.mark.parametrize("well", ["ready", "degraded"])
def test_starting_after_ready(court: Court, well: str) -> None:
    feels(court, well)
    feels(court, "starting", version=2)
    assert court.broken == "starting_takes_nobody_back"


def test_the_health_of_a_node_that_is_terminated(court: Court) -> None:
    court.node("condemn", state="terminating")
    court.ledger.close(court.ledger.live()[0], now=court.now, cause="terminated")
    court.node("confirm_gone", state="terminated")
    feels(court, "offline")
    assert court.broken == "the_gone_feel_nothing"


@pytest.mark.parametrize(
    ("more", "broken"), [(-LITTLE, "no_live_node_is_offline"), (LITTLE, None)], ids=["fresh", "stale"]
)
def test_offline_although_a_beat_is_fresh(
    court: Court, truth: Truth, more: float, broken: str | None
) -> None:
    truth.beat(court.now, advanced=False)
    later(court, SIMULATED.stale_after - DATED + more)
    feels(court, "offline")
    assert court.broken == broken


@pytest.mark.parametrize(
    ("more", "broken"), [(LITTLE, "the_silent_are_offline"), (-LITTLE, None)], ids=["silent", "not yet"]
)
def test_silence_that_nobody_notices(court: Court, truth: Truth, more: float, broken: str | None) -> None:
    idles(court)
    truth.reached_at = court.now
    later(court, SIMULATED.stale_after + NOTICED + more)
    court.judge.tick(30.0, calm=True)
    assert court.broken == broken


@pytest.mark.parametrize(
    ("more", "broken"), [(LITTLE, "the_living_are_ready"), (-LITTLE, None)], ids=["alive", "not yet"]
)
def test_life_that_nobody_notices(court: Court, truth: Truth, more: float, broken: str | None) -> None:
    idles(court)
    until = court.now + SIMULATED.max_transition + NOTICED + more
    truth.beat(court.now, advanced=False)
    while court.now < until:
        later(court, min(GAP, until - court.now))
        truth.beat(court.now, advanced=False)
        truth.reached_at = court.now
    court.judge.tick(30.0, calm=True)
    assert court.broken == broken


@pytest.mark.parametrize(
    ("silent_for", "broken"), [(SILENCE + LITTLE, "no_dead_node_is_claimed"), (SILENCE, None)]
)
def test_a_claim_of_a_node_that_is_silent(
    court: Court, truth: Truth, silent_for: float, broken: str | None
) -> None:
    idles(court)
    truth.reached_at = court.now
    later(court, silent_for)
    court.node("claim", state="claimed", operation_id="op-1", assignment_id="as-2", owner="me", run="run-1")
    assert court.broken == broken


def test_a_commit_of_a_node_that_is_silent(court: Court, truth: Truth) -> None:
    court.node("booted", booted_at=court.now)
    attach(court)
    truth.reached_at = court.now
    later(court, SILENCE + LITTLE)
    court.operation(
        "committed", committed_at=court.now, members=[{"node_id": "node-1", "assignment_id": "as-1"}]
    )
    assert court.broken == "all_alive_at_commit"


def test_a_live_node_that_is_given_up(court: Court, truth: Truth) -> None:
    idles(court)
    truth.beat(court.now, advanced=False)
    later(court, SIMULATED.stale_after - DATED - LITTLE)
    court.node("condemn", state="terminating", reason="heartbeat_lost")
    assert court.broken == "no_live_node_is_given_up"


# --- absence ----------------------------------------------------------------------------------------


def away(court: Court, seconds: float = 100.0) -> None:
    court.presence.note(court.now, there=False, who=("replica",))
    later(court, seconds)
    court.presence.note(court.now, there=True, who=("replica",))


@pytest.mark.parametrize(
    ("patience", "judge"),
    [
        (SIMULATED.stale_after, lambda court: feels(court, "offline")),
        (STALL, lambda court: fails(court, "boot_stalled")),
        (SIMULATED.return_grace, lambda court: fails(court, "boot_timeout")),
    ],
    ids=["offline", "stalled", "overdue"],
)
@pytest.mark.parametrize("early", [True, False])
def test_a_booting_node_that_is_judged_for_absence(
    court: Court, patience: float, judge: object, early: bool
) -> None:
    assert callable(judge)
    away(court)
    later(court, patience - DATED + (-LITTLE if early else LITTLE))
    judge(court)
    assert court.broken == ("nobody_is_judged_for_absence" if early else None)


@pytest.mark.parametrize(
    ("reason", "patience"),
    [("heartbeat_lost", SIMULATED.dead_after), ("idle_timeout", SIMULATED.return_grace)],
)
@pytest.mark.parametrize("early", [True, False])
def test_an_idle_node_that_is_judged_for_absence(
    court: Court, reason: str, patience: float, early: bool
) -> None:
    idles(court)
    away(court, 300.0)
    later(court, patience - DATED + (-LITTLE if early else LITTLE))
    court.node("condemn", state="terminating", reason=reason)
    assert court.broken == ("nobody_is_judged_for_absence" if early else None)


def test_a_deadline_that_had_passed_before_the_absence_has_no_grace(court: Court) -> None:
    later(court, TIMEOUT)
    away(court)
    fails(court, "boot_timeout")
    assert court.broken is None


def test_an_absence_is_remembered_when_it_is_over_and_was_long_enough() -> None:
    presence = Presence()
    presence.note(100.0, there=False, who=("a",))
    presence.note(110.0, there=False, who=("b",))
    presence.note(100.0 + SIMULATED.stale_after, there=True, who=("a",))
    assert not presence.absence
    presence.note(200.0, there=False, who=("a",))
    presence.note(300.0, there=True, who=("b",))
    assert presence.absence == Absence(began=200.0, ended=300.0)
    assert presence.calm_since == 300.0 + SETTLING
    assert presence.steady(250.0, "a", "c")
    assert not presence.steady(250.0, "a", "b")


def test_a_gap_between_beats_begins_life_anew() -> None:
    truth = Truth()
    for at in (100.0, 100.0 + GAP, 100.0 + 2 * GAP):
        truth.beat(at, advanced=False)
    assert (truth.beating_since, truth.advance_at) == (100.0, 0.0)
    truth.beat(101.0 + 3 * GAP, advanced=True)
    assert (truth.beating_since, truth.advance_at) == (101.0 + 3 * GAP, 101.0 + 3 * GAP)
