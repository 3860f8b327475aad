"""Each promise about boots, health and absence can break: a crafted history breaks exactly that one."""

import pytest

from muster.domain.events import Draft, Entity
from muster.domain.serialization import Plain
from muster.domain.template import Reuse, TemplateSpec
from muster_simulation.invariants.boot_rules import SWEPT
from muster_simulation.invariants.health_rules import NOTICED, SILENCE
from muster_simulation.invariants.truth import DATED, GAP, SETTLING, SIMULATED, Absence, Presence, Truth
from tests.simulation.crafted_history import UNBOUND, CraftedHistory, attach, commit

TIMEOUT = 100.0
STALL = 60.0
CEILING = 2 * TIMEOUT
LITTLE = 0.5


@pytest.fixture
def history() -> CraftedHistory:
    """A provision whose one node has joined and boots; nothing is broken so far."""
    spec = TemplateSpec(
        name="ci",
        provider="simulated",
        max_nodes=2,
        provision_timeout=TIMEOUT,
        stall_after=STALL,
        rescue_window=30.0,
    )
    made = CraftedHistory(spec=spec)
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
def truth(history: CraftedHistory) -> Truth:
    return history.truths["i-1"]


def later(history: CraftedHistory, seconds: float) -> None:
    history.now += seconds


def feels(
    history: CraftedHistory, health: str, *, version: int = 1, reason: str = "", node_id: str = "node-1"
) -> None:
    changes: dict[str, Plain] = {
        "health": health,
        "health_reason": reason,
        "health_source": "reconcile",
        "health_since": 0.0,
    }
    history.see(Draft(entity=Entity.HEALTH, entity_id=node_id, version=version, name=health, changes=changes))
    history.versions[node_id] = history.judge.records.nodes[node_id]["version"]


def fails(history: CraftedHistory, reason: str = "boot_stalled") -> None:
    history.node(
        "fail", state="failed", reason=reason, entered_at=history.now, deadline_at=history.now + 45.0
    )


def idles(history: CraftedHistory) -> None:
    history.node("booted", booted_at=history.now)
    history.node("pool_in", state="idle", deadline_at=history.now + 300.0, **UNBOUND)
    assert history.broken is None


# --- boots ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "patience"), [("boot_stalled", STALL), ("boot_timeout", TIMEOUT / 2)], ids=str
)
@pytest.mark.parametrize(
    ("more", "broken"), [(-LITTLE, "no_advancing_boot_is_failed"), (LITTLE, None)], ids=["advancing", "not"]
)
def test_a_boot_that_is_given_up_while_it_advances(
    history: CraftedHistory, reason: str, patience: float, more: float, broken: str | None
) -> None:
    later(history, TIMEOUT)
    history.truths["i-1"].advance_at = history.now - (patience - DATED) - more
    fails(history, reason)
    assert history.broken == broken


def test_a_boot_at_its_ceiling_may_be_given_up(history: CraftedHistory, truth: Truth) -> None:
    later(history, CEILING)
    truth.advance_at = history.now
    fails(history, "boot_timeout")
    assert history.broken is None


def test_a_hard_limit_is_hard(history: CraftedHistory, truth: Truth) -> None:
    history.node("extend", deadline_source="request")
    later(history, TIMEOUT)
    truth.advance_at = history.now
    fails(history, "boot_timeout")
    assert history.broken is None


@pytest.mark.parametrize(
    ("more", "broken"), [(LITTLE, "who_stands_still_is_failed"), (-LITTLE, None)], ids=["stuck", "not yet"]
)
def test_a_boot_that_stands_still_for_too_long(
    history: CraftedHistory, more: float, broken: str | None
) -> None:
    later(history, STALL + SWEPT + more)
    history.presence.disturbed_at = 0.0
    history.truths["i-1"].reached_at = history.now
    history.judge.tick(30.0, calm=False)
    assert history.broken is None
    history.judge.tick(30.0, calm=True)
    assert history.broken == broken


def test_a_standstill_counts_from_when_all_was_calm(history: CraftedHistory) -> None:
    later(history, STALL + SWEPT + LITTLE)
    history.presence.disturbed_at = history.now - SETTLING
    history.judge.tick(30.0, calm=True)
    assert history.broken is None


@pytest.mark.parametrize(
    ("more", "broken"), [(2.0, "extensions_have_a_ceiling"), (0.0, None)], ids=["beyond", "up to"]
)
def test_an_extension_beyond_the_ceiling(history: CraftedHistory, more: float, broken: str | None) -> None:
    history.node("extend", deadline_at=history.now + CEILING + more, deadline_source="extension")
    assert history.broken == broken


@pytest.mark.parametrize(
    ("reason", "late", "broken"),
    [
        ("boot_stalled", 30.0, None),
        ("boot_stalled", 30.0 + LITTLE, "only_the_late_are_rescued"),
        ("machine_gone", 1.0, "only_the_late_are_rescued"),
    ],
)
def test_a_rescue(history: CraftedHistory, reason: str, late: float, broken: str | None) -> None:
    fails(history, reason)
    later(history, late)
    history.node("rescued", state="releasing", booted_at=history.now)
    assert history.broken == broken


@pytest.mark.parametrize(("since", "broken"), [(0.0, None), (LITTLE, "only_the_late_are_rescued")])
def test_a_rescue_in_the_grace_after_a_disturbance(
    history: CraftedHistory, since: float, broken: str | None
) -> None:
    fails(history, "boot_stalled")
    later(history, 300.0)
    history.presence.disturbed_at = history.now - SETTLING - SIMULATED.return_grace - since
    history.node("rescued", state="releasing", booted_at=history.now)
    assert history.broken == broken


def test_a_node_that_was_given_up_runs_under_its_old_assignment(history: CraftedHistory) -> None:
    fails(history)
    history.node("rescued", state="releasing", booted_at=history.now)
    history.node("clean", state="idle", **UNBOUND)
    history.judge.nodes._assigned.clear()
    history.node("claim", state="claimed", operation_id="op-1", assignment_id="as-1", owner="me", run="run-1")
    assert history.broken == "given_up_is_given_up"


def test_a_rescued_node_serves_another_assignment(history: CraftedHistory) -> None:
    fails(history)
    history.node("rescued", state="releasing", booted_at=history.now)
    history.node("clean", state="idle", **UNBOUND)
    history.node("claim", state="claimed", operation_id="op-1", assignment_id="as-2", owner="me", run="run-1")
    assert history.broken is None


def test_a_commit_of_what_was_given_up(history: CraftedHistory) -> None:
    history.judge.boots._given_up["node-1"] = "as-1"
    history.judge.boots.check = lambda *_: None  # type: ignore[method-assign]
    history.node("booted", booted_at=history.now)
    commit(history)
    assert history.broken == "given_up_is_given_up"


def test_a_node_that_fails_twice(history: CraftedHistory) -> None:
    history.judge.boots._given_up["node-1"] = None
    fails(history)
    assert history.broken == "one_failure_per_node"


def test_a_failure_that_is_diagnosed_twice(history: CraftedHistory) -> None:
    draft = Draft(entity=Entity.DIAGNOSIS, entity_id="node-1", version=1, name="collected", changes={})
    history.see(draft)
    assert history.broken is None
    history.see(draft)
    assert history.broken == "one_diagnosis_per_node"


# --- health -----------------------------------------------------------------------------------------


def test_health_that_changes_as_it_should(history: CraftedHistory) -> None:
    feels(history, "ready")
    feels(history, "offline", version=2, reason="silent")
    feels(history, "starting", version=3, reason="it beats again")
    feels(history, "ready", version=4)
    assert history.broken is None


def test_health_whose_versions_have_a_gap(history: CraftedHistory) -> None:
    feels(history, "ready", version=2)
    assert history.broken == "feed_is_complete"


def test_health_that_does_not_change(history: CraftedHistory) -> None:
    feels(history, "ready")
    feels(history, "ready", version=2)
    assert history.broken == "health_events_are_changes"


@pytest.mark.parametrize("well", ["ready", "degraded"])
def test_starting_after_ready(history: CraftedHistory, well: str) -> None:
    feels(history, well)
    feels(history, "starting", version=2)
    assert history.broken == "starting_takes_nobody_back"


def test_the_health_of_a_node_that_is_terminated(history: CraftedHistory) -> None:
    history.node("condemn", state="terminating")
    history.ledger.close(history.ledger.live()[0], now=history.now, cause="terminated")
    history.node("confirm_gone", state="terminated")
    feels(history, "offline")
    assert history.broken == "the_gone_feel_nothing"


@pytest.mark.parametrize(
    ("more", "broken"), [(-LITTLE, "no_live_node_is_offline"), (LITTLE, None)], ids=["fresh", "stale"]
)
def test_offline_although_a_beat_is_fresh(
    history: CraftedHistory, truth: Truth, more: float, broken: str | None
) -> None:
    truth.beat(history.now, advanced=False)
    later(history, SIMULATED.stale_after - DATED + more)
    feels(history, "offline")
    assert history.broken == broken


@pytest.mark.parametrize(
    ("more", "broken"), [(LITTLE, "the_silent_are_offline"), (-LITTLE, None)], ids=["silent", "not yet"]
)
def test_silence_that_goes_unnoticed(
    history: CraftedHistory, truth: Truth, more: float, broken: str | None
) -> None:
    idles(history)
    truth.reached_at = history.now
    later(history, SIMULATED.stale_after + NOTICED + more)
    history.judge.tick(30.0, calm=True)
    assert history.broken == broken


@pytest.mark.parametrize(
    ("more", "broken"), [(LITTLE, "the_living_are_ready"), (-LITTLE, None)], ids=["alive", "not yet"]
)
def test_life_that_goes_unnoticed(
    history: CraftedHistory, truth: Truth, more: float, broken: str | None
) -> None:
    idles(history)
    until = history.now + SIMULATED.max_transition + NOTICED + more
    truth.beat(history.now, advanced=False)
    while history.now < until:
        later(history, min(GAP, until - history.now))
        truth.beat(history.now, advanced=False)
        truth.reached_at = history.now
    history.judge.tick(30.0, calm=True)
    assert history.broken == broken


@pytest.mark.parametrize(
    ("silent_for", "broken"), [(SILENCE + LITTLE, "no_dead_node_is_claimed"), (SILENCE, None)]
)
def test_a_claim_of_a_node_that_is_silent(
    history: CraftedHistory, truth: Truth, silent_for: float, broken: str | None
) -> None:
    idles(history)
    truth.reached_at = history.now
    later(history, silent_for)
    history.node("claim", state="claimed", operation_id="op-1", assignment_id="as-2", owner="me", run="run-1")
    assert history.broken == broken


def test_a_commit_of_a_node_that_is_silent(history: CraftedHistory, truth: Truth) -> None:
    history.node("booted", booted_at=history.now)
    attach(history)
    truth.reached_at = history.now
    later(history, SILENCE + LITTLE)
    history.operation(
        "committed", committed_at=history.now, members=[{"node_id": "node-1", "assignment_id": "as-1"}]
    )
    assert history.broken == "all_alive_at_commit"


def test_a_live_node_that_is_given_up(history: CraftedHistory, truth: Truth) -> None:
    idles(history)
    truth.beat(history.now, advanced=False)
    later(history, SIMULATED.stale_after - DATED - LITTLE)
    history.node("condemn", state="terminating", reason="heartbeat_lost")
    assert history.broken == "no_live_node_is_given_up"


# --- absence ----------------------------------------------------------------------------------------


def away(history: CraftedHistory, seconds: float = 100.0) -> None:
    history.presence.note(history.now, there=False, who=("replica",))
    later(history, seconds)
    history.presence.note(history.now, there=True, who=("replica",))


@pytest.mark.parametrize(
    ("patience", "judge"),
    [
        (SIMULATED.stale_after, lambda history: feels(history, "offline")),
        (STALL, lambda history: fails(history, "boot_stalled")),
        (SIMULATED.return_grace, lambda history: fails(history, "boot_timeout")),
    ],
    ids=["offline", "stalled", "overdue"],
)
@pytest.mark.parametrize("early", [True, False])
def test_a_booting_node_that_is_judged_for_absence(
    history: CraftedHistory, patience: float, judge: object, early: bool
) -> None:
    assert callable(judge)
    away(history)
    later(history, patience - DATED + (-LITTLE if early else LITTLE))
    judge(history)
    assert history.broken == ("nobody_is_judged_for_absence" if early else None)


@pytest.mark.parametrize(
    ("reason", "patience"),
    [("heartbeat_lost", SIMULATED.dead_after), ("idle_timeout", SIMULATED.return_grace)],
)
@pytest.mark.parametrize("early", [True, False])
def test_an_idle_node_that_is_judged_for_absence(
    history: CraftedHistory, reason: str, patience: float, early: bool
) -> None:
    idles(history)
    away(history, 300.0)
    later(history, patience - DATED + (-LITTLE if early else LITTLE))
    history.node("condemn", state="terminating", reason=reason)
    assert history.broken == ("nobody_is_judged_for_absence" if early else None)


@pytest.mark.parametrize(
    ("booted", "reuse", "drain", "allowed"),
    [
        (True, Reuse.NEVER, False, True),
        (True, Reuse.ALWAYS, True, True),
        (True, Reuse.ALWAYS, False, False),
        (False, Reuse.NEVER, False, False),
    ],
)
def test_a_failed_node_that_boots_in_an_absence_is_condemned_only_if_it_is_of_no_use(
    history: CraftedHistory, truth: Truth, *, booted: bool, reuse: Reuse, drain: bool, allowed: bool
) -> None:
    history.judge.records.templates["ci", 1]["spec"]["reuse"] = reuse.value
    later(history, TIMEOUT)
    fails(history, "boot_timeout")
    history.node("extend", deadline_at=history.now + 30.0, drain=drain)
    away(history)
    truth.booted = booted
    history.node("condemn", state="terminating", reason="boot_timeout")
    assert history.broken == (None if allowed else "nobody_is_judged_for_absence")


def test_a_deadline_that_had_passed_before_the_absence_has_no_grace(history: CraftedHistory) -> None:
    later(history, TIMEOUT)
    away(history)
    fails(history, "boot_timeout")
    assert history.broken is None


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
