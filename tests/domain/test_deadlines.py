"""Every limit on both of its sides; the limits are odd numbers here, so that no default can stand in."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.domain import deadlines
from muster.domain.boot import Learned
from muster.domain.deadlines import (
    Deadline,
    DeadlineContext,
    Extended,
    Limits,
    Overdue,
    Watch,
    judge,
    resolve_boot,
)
from muster.domain.lifecycle import LIVE, NodeState
from muster.domain.node import Node
from muster.domain.operation import Kind, Operation
from muster.domain.reasons import Reason
from muster.domain.template import Runtime, TemplateSpec
from tests.domain.builders import LIMITS, NOW, SMALLEST, modest, node, operation, spec

ODD = Limits(boot=711.0, launching=113.0, release_operation=171.0, after_operation=67.0)
SIDES = [-SMALLEST, 0.0, SMALLEST]
times = st.floats(1, 10_000)


# --- the one resolver -----------------------------------------------------------------------------


def test_a_request_beats_the_template_the_runtime_and_the_default() -> None:
    limits = replace(ODD, boot_runtimes={"github": 1800.0})
    github = spec(runtime="github")
    timed = replace(github, provision_timeout=30.0)
    assert resolve_boot(timeout=5.0, template=timed, limits=ODD) == Deadline(seconds=5.0, source="request")
    assert resolve_boot(timeout=None, template=timed, limits=ODD) == Deadline(seconds=30.0, source="template")
    by_runtime = resolve_boot(timeout=None, template=github, limits=limits)
    assert by_runtime == Deadline(seconds=1800.0, source="runtime")
    by_default = resolve_boot(timeout=None, template=spec(), limits=ODD)
    assert by_default == Deadline(seconds=ODD.boot, source="default")


@modest
@given(st.none() | times, st.none() | times, times)
def test_learning_never_shortens_and_never_passes_an_explicit_request(
    timeout: float | None, by_template: float | None, learned: float
) -> None:
    template = spec(provision_timeout=by_template)
    known = Learned(seconds=learned, basis="p99 of 57 boots")
    without = resolve_boot(timeout=timeout, template=template, limits=ODD)
    resolved = resolve_boot(timeout=timeout, template=template, limits=ODD, learned=known)
    if timeout is not None:
        assert resolved == without == Deadline(seconds=timeout, source="request")
    else:
        longer = Deadline(seconds=learned, source="learned (p99 of 57 boots)")
        assert resolved == (longer if learned > without.seconds else without)
        switched_off = replace(template, learn=False)
        assert resolve_boot(timeout=None, template=switched_off, limits=ODD, learned=known) == without


def test_what_was_learned_counts_only_if_it_is_longer() -> None:
    for side, source in zip(SIDES, ["default", "default", "learned (all)"], strict=True):
        learned = Learned(seconds=ODD.boot + side, basis="all")
        assert resolve_boot(timeout=None, template=spec(), limits=ODD, learned=learned).source == source


def test_the_defaults_are_those_of_the_design() -> None:
    assert (LIMITS.boot, LIMITS.launching, LIMITS.after_operation) == (720, 120, 60)
    assert (LIMITS.releasing, LIMITS.release_operation, LIMITS.attention) == (120, 180, 600)
    attach = {runtime: deadlines.attach_timeout(spec(runtime=runtime)) for runtime in (*Runtime, "github")}
    assert (attach["exec"], attach["github"]) == (30, 120)
    assert all(seconds > 0 for seconds in attach.values())


def test_a_template_says_how_long_attaching_may_take() -> None:
    assert deadlines.attach_timeout(spec(attach_timeout=7.5)) == 7.5


def test_a_provision_has_time_to_queue_to_launch_to_boot_and_to_attach() -> None:
    template = spec(provision_timeout=19.0, attach_timeout=7.0)
    whole = deadlines.for_provision(timeout=None, queue_timeout=300.0, template=template, limits=ODD)
    assert whole == Deadline(seconds=300.0 + ODD.launching + 19.0 + 7.0, source="template")


def test_an_explicit_timeout_is_hard_and_covers_the_queue() -> None:
    whole = deadlines.for_provision(timeout=10.0, queue_timeout=300.0, template=spec(), limits=ODD)
    assert whole == Deadline(seconds=10.0, source="request")


def test_a_release_and_a_refill_have_their_own_deadlines() -> None:
    release = Deadline(seconds=ODD.release_operation, source="default")
    assert deadlines.for_operation(Kind.RELEASE, template=spec(), limits=ODD) == release
    assert deadlines.for_operation(Kind.REFILL, template=None, limits=ODD) == release
    refill = deadlines.for_operation(Kind.REFILL, template=spec(), limits=ODD)
    assert refill == Deadline(seconds=ODD.launching + ODD.boot, source="default")


def test_the_ceiling_of_a_boot_is_twice_what_resolves_unless_the_template_says() -> None:
    assert deadlines.max_boot(spec(), ODD) == 2 * ODD.boot
    assert deadlines.max_boot(spec(provision_timeout=10.0), ODD) == 20.0
    assert deadlines.max_boot(spec(max_provision_timeout=11.0), ODD) == 11.0


# --- the judge ------------------------------------------------------------------------------------

UP: dict[str, Any] = {"booted_at": NOW - 40}
WATCHED = Watch(since=0.0)


def judged_by(node: Node, op: Operation | None, **given: Any) -> Overdue | Extended | None:
    """By a judge who watched all the time and knows of no advance, unless said otherwise."""
    context: dict[str, Any] = {
        "template": spec(),
        "advanced_at": None,
        "watch": WATCHED,
        "now": NOW,
        "limits": ODD,
        **given,
    }
    return judge(node, DeadlineContext(operation=op, **context))


REASONS: list[tuple[Node, Overdue]] = [
    (node(NodeState.CREATED), Overdue(reason=Reason.BOOT_TIMEOUT, fails=True)),
    (node(NodeState.CREATED, **UP), Overdue(reason=Reason.ATTACH_FAILED, fails=False)),
    (node(NodeState.CLAIMED), Overdue(reason=Reason.ATTACH_FAILED, fails=False)),
    (node(NodeState.RUNNING), Overdue(reason=Reason.MAX_RUNTIME, fails=False)),
    (node(NodeState.IDLE), Overdue(reason=Reason.IDLE_TIMEOUT, fails=False)),
    (node(NodeState.RELEASING), Overdue(reason=Reason.RELEASE_TIMEOUT, fails=False)),
    (node(NodeState.FAILED), Overdue(reason=Reason.BOOT_TIMEOUT, fails=False)),
    (node(NodeState.FAILED, reason=Reason.BOOT_STALLED), Overdue(reason=Reason.BOOT_STALLED, fails=False)),
    (node(NodeState.FAILED, reason=None), Overdue(reason=Reason.BOOT_TIMEOUT, fails=False)),
]


@pytest.mark.parametrize("late", SIDES)
@pytest.mark.parametrize(("judged", "overdue"), REASONS)
def test_a_node_is_overdue_from_its_deadline_on(judged: Node, overdue: Overdue, late: float) -> None:
    timed = replace(judged, deadline_at=NOW - late)
    assert judged_by(timed, operation()) == (overdue if late >= 0 else None)


@pytest.mark.parametrize("state", LIVE)
def test_the_judge_knows_every_state_in_which_time_can_be_over(state: NodeState) -> None:
    assert judged_by(node(state, deadline_at=NOW - 1), operation()) is not None


@pytest.mark.parametrize("state", NodeState)
def test_a_node_without_a_deadline_is_never_overdue(state: NodeState) -> None:
    assert judged_by(node(state, deadline_at=None), operation()) is None


@pytest.mark.parametrize("state", [NodeState.TERMINATING, NodeState.TERMINATED])
def test_a_condemned_node_is_not_judged(state: NodeState) -> None:
    assert judged_by(node(state, deadline_at=NOW - 1), None) is None


WAITING = [
    {"state": NodeState.CREATED, **UP, "attached_at": NOW - 30},
    {"state": NodeState.CLAIMED, "attached_at": NOW - 30},
    {"state": NodeState.CREATED, **UP, "assignment_id": None},
]
"""Nodes that did their part: two attached, one booted for a refill."""


@pytest.mark.parametrize("fields", WAITING)
@pytest.mark.parametrize("late", SIDES)
def test_a_node_that_did_its_part_has_the_time_of_its_operation(fields: dict[str, Any], late: float) -> None:
    judged = node(**fields, deadline_at=NOW - 5)
    op = operation(deadline_at=NOW - ODD.after_operation - late)
    until = op.deadline_at + ODD.after_operation
    verdict = judged_by(judged, op)
    if late < 0:
        assert verdict == Extended(deadline_at=until, source="operation")
    else:
        assert verdict == Overdue(reason=Reason.DEADLINE_EXCEEDED, fails=False)


@pytest.mark.parametrize("fields", WAITING)
def test_a_node_that_did_its_part_is_judged_without_its_operation_too(fields: dict[str, Any]) -> None:
    judged = node(**fields, deadline_at=NOW)
    assert judged_by(judged, None) == Overdue(reason=Reason.DEADLINE_EXCEEDED, fails=False)


@pytest.mark.parametrize("fields", [*WAITING, {"state": NodeState.CREATED}, {"state": NodeState.CLAIMED}])
def test_the_nodes_of_a_committed_operation_are_not_judged_before_they_run(fields: dict[str, Any]) -> None:
    long_ago = operation(committed_at=0.0, deadline_at=0.0)
    assert judged_by(node(**fields, deadline_at=0.0), long_ago) is None


def test_a_running_node_is_judged_although_its_operation_is_committed() -> None:
    verdict = judged_by(node(NodeState.RUNNING, deadline_at=NOW), operation(committed_at=NOW - 9))
    assert verdict == Overdue(reason=Reason.MAX_RUNTIME, fails=False)


# --- slow is not stuck ----------------------------------------------------------------------------

SLOW = replace(ODD, stall_after=301.0, extension=61.0, return_grace=59.0)
MADE = NOW - 711.0
PULLING: dict[str, Any] = {"phase": "boot_script", "step": "pull", "joined_at": MADE + 5, "entered_at": MADE}


def booting(**fields: Any) -> Node:
    """At its deadline to the moment, and in the middle of something."""
    return node(NodeState.CREATED, **(PULLING | {"deadline_at": NOW, "deadline_source": "default"} | fields))


@pytest.mark.parametrize("side", SIDES)
def test_a_boot_that_stands_still_is_failed_early(side: float) -> None:
    still = NOW - SLOW.stall_after - side
    verdict = judged_by(booting(deadline_at=NOW + 9000), None, advanced_at=still, limits=SLOW)
    stalled = Overdue(reason=Reason.BOOT_STALLED, fails=True, still_since=still)
    assert verdict == (stalled if side > 0 else None)


def test_a_stall_says_where_it_hangs() -> None:
    verdict = judged_by(booting(), None, advanced_at=NOW - 400, limits=SLOW)
    assert verdict is not None
    assert "400 s" in verdict.detail and "boot_script (pull)" in verdict.detail


@pytest.mark.parametrize("side", SIDES)
def test_a_template_has_its_own_patience_with_a_boot_that_stands_still(side: float) -> None:
    still = NOW - 31.0 - side
    given: dict[str, Any] = {"advanced_at": still, "limits": SLOW, "template": spec(stall_after=31.0)}
    verdict = judged_by(booting(deadline_at=NOW + 9000), None, **given)
    assert (verdict is not None) == (side > 0)


def test_a_machine_that_never_joined_does_not_stall_but_is_late() -> None:
    unanswered = booting(phase="", step="", joined_at=None)
    assert judged_by(replace(unanswered, deadline_at=NOW + 1), None, limits=SLOW) is None
    assert judged_by(unanswered, None, limits=SLOW) == Overdue(reason=Reason.BOOT_TIMEOUT, fails=True)


def test_no_boot_stalls_for_time_in_which_no_replica_watched() -> None:
    watch = Watch(since=NOW - SLOW.stall_after, away_from=NOW - 5000)
    given: dict[str, Any] = {"advanced_at": NOW - 4000, "limits": SLOW}
    assert judged_by(booting(deadline_at=NOW + 1), None, watch=watch, **given) is None
    longer = replace(watch, since=watch.since - SMALLEST)
    verdict = judged_by(booting(deadline_at=NOW + 1), None, watch=longer, **given)
    assert isinstance(verdict, Overdue) and verdict.reason is Reason.BOOT_STALLED


def test_a_boot_that_advances_at_its_deadline_is_given_more_time_in_steps() -> None:
    verdict = judged_by(booting(), None, advanced_at=NOW - 107, limits=SLOW)
    assert verdict == Extended(deadline_at=NOW + SLOW.extension, source="extension")
    assert "boot_script (pull)" in verdict.detail
    assert judged_by(booting(deadline_at=NOW + SMALLEST), None, advanced_at=NOW - 1, limits=SLOW) is None


def test_a_boot_that_is_late_is_spared_by_an_advance_before_it_is_written() -> None:
    late = booting(entered_at=NOW - 100)
    verdict = judged_by(late, None, advanced_at=NOW - 51, limits=SLOW)
    assert verdict == Overdue(reason=Reason.BOOT_TIMEOUT, fails=True, still_since=NOW - 51)


@pytest.mark.parametrize("side", SIDES)
def test_no_extension_passes_the_ceiling(side: float) -> None:
    ceiling = deadlines.max_boot(spec(), SLOW)
    late = booting(entered_at=NOW - ceiling - side, deadline_at=NOW - side, deadline_source="extension")
    verdict = judged_by(late, None, advanced_at=NOW - 1, limits=SLOW)
    if side < 0:
        assert verdict is None
        soon = judged_by(late, None, advanced_at=NOW, limits=SLOW, now=NOW - side)
        assert soon == Overdue(reason=Reason.BOOT_TIMEOUT, fails=True)
    else:
        assert verdict == Overdue(reason=Reason.BOOT_TIMEOUT, fails=True)


def test_the_last_extension_ends_exactly_at_the_ceiling() -> None:
    ceiling = deadlines.max_boot(spec(), SLOW)
    late = booting(entered_at=NOW - ceiling + 10, deadline_at=NOW)
    verdict = judged_by(late, None, advanced_at=NOW - 1, limits=SLOW)
    assert verdict == Extended(deadline_at=NOW + 10, source="extension")


def test_a_limit_that_the_caller_named_is_not_extended() -> None:
    hard = booting(deadline_source=deadlines.HARD)
    verdict = judged_by(hard, None, advanced_at=NOW - 1, limits=SLOW)
    assert verdict == Overdue(reason=Reason.BOOT_TIMEOUT, fails=True)


@pytest.mark.parametrize("side", SIDES)
def test_who_did_not_move_in_the_second_half_of_a_short_boot_is_not_advancing(side: float) -> None:
    short = booting(entered_at=NOW - 40, deadline_at=NOW)
    verdict = judged_by(short, None, advanced_at=NOW - 20 - side, limits=SLOW)
    assert isinstance(verdict, Overdue if side > 0 else Extended)


def test_a_booted_node_neither_stalls_nor_is_extended() -> None:
    up = booting(**UP, phase="booted")
    verdict = judged_by(up, operation(), advanced_at=NOW - 1, limits=SLOW)
    assert verdict == Overdue(reason=Reason.ATTACH_FAILED, fails=False)


# --- after time in which no replica watched -------------------------------------------------------

AWAY = Watch(since=NOW - 10, away_from=NOW - 500)


@pytest.mark.parametrize(
    ("deadline_at", "due"),
    [
        (NOW - 501, NOW - 501),  # it was late before: nothing excuses it
        (NOW - 500, NOW - 500),
        (NOW - 500 + SMALLEST, NOW - 10 + SLOW.return_grace),
        (NOW - 5, NOW - 10 + SLOW.return_grace),
        (NOW - 10 + SLOW.return_grace, NOW - 10 + SLOW.return_grace),
        (NOW + 4000, NOW + 4000),
    ],
)
def test_a_deadline_that_passed_unwatched_gets_a_bounded_grace(deadline_at: float, due: float) -> None:
    assert AWAY.due(deadline_at, SLOW) == due
    assert replace(AWAY, away_from=None).due(deadline_at, SLOW) == deadline_at


def test_a_watch_is_unbroken_from_the_moment_at_which_it_began_anew() -> None:
    assert AWAY.unbroken_from(AWAY.since)
    assert not AWAY.unbroken_from(AWAY.since - SMALLEST)
    assert Watch(since=NOW).unbroken_from(NOW - 500)  # it was never broken


@pytest.mark.parametrize(("judged", "overdue"), REASONS)
def test_the_grace_holds_for_every_state_and_ends(judged: Node, overdue: Overdue) -> None:
    timed = replace(judged, deadline_at=NOW - 100)
    assert judged_by(timed, operation(), watch=AWAY, limits=SLOW) is None
    later = AWAY.since + SLOW.return_grace
    assert judged_by(timed, operation(), watch=AWAY, limits=SLOW, now=later) == overdue
    before = judged_by(timed, operation(), watch=AWAY, limits=SLOW, now=later - SMALLEST)
    assert before is None


# --- what a failed node is kept for ---------------------------------------------------------------


@pytest.mark.parametrize("window", [0.0, deadlines.COLLECTING, deadlines.COLLECTING + 1])
@pytest.mark.parametrize("reason", [*deadlines.RESCUABLE, Reason.BOOT_SCRIPT_FAILED, Reason.MACHINE_GONE])
def test_a_failed_node_is_kept_for_its_rescue_and_for_what_it_can_tell(reason: Reason, window: float) -> None:
    until = deadlines.failed_until(reason, spec(rescue_window=window), now=NOW)
    rescue = window if reason in (Reason.BOOT_TIMEOUT, Reason.BOOT_STALLED) else 0.0
    assert until == NOW + max(rescue, deadlines.COLLECTING)


def rescued_late(
    failed: Node, template: TemplateSpec, *, now: float = NOW, watch: Watch = WATCHED
) -> float | None:
    closes = watch.due(deadlines.rescue_closes(failed, template), SLOW)
    return deadlines.rescued_late(failed, template, now=now, closes=closes)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("reason", [Reason.BOOT_TIMEOUT, Reason.BOOT_STALLED, Reason.BOOT_SCRIPT_FAILED])
def test_the_overdue_and_the_stalled_are_rescued_inside_the_window(reason: Reason, side: float) -> None:
    failed = node(NodeState.FAILED, reason=reason, entered_at=NOW - 77.0 - side)
    late = rescued_late(failed, spec(rescue_window=77.0))
    rescued = reason in deadlines.RESCUABLE and side <= 0
    assert late == (77.0 + side if rescued else None)


@pytest.mark.parametrize("side", SIDES)
def test_a_window_that_closed_while_no_replica_watched_stays_open_for_the_grace(side: float) -> None:
    failed = node(NodeState.FAILED, reason=Reason.BOOT_TIMEOUT, entered_at=NOW)
    closes = NOW + spec().rescue_window
    away = Watch(since=closes + 1000.0, away_from=closes - 1.0)
    now = away.since + SLOW.return_grace + side
    late = rescued_late(failed, spec(), now=now, watch=away)
    assert late == (now - NOW if side <= 0 else None)


@pytest.mark.parametrize("side", SIDES)
def test_a_window_that_was_closed_before_the_absence_stays_closed(side: float) -> None:
    failed = node(NodeState.FAILED, reason=Reason.BOOT_TIMEOUT, entered_at=NOW)
    closes = NOW + spec().rescue_window
    away = Watch(since=closes + 1000.0, away_from=closes + side)
    late = rescued_late(failed, spec(), now=away.since, watch=away)
    assert (late is not None) == (side < 0)


def test_only_a_failed_node_is_rescued() -> None:
    for state in NodeState:
        given = node(state, reason=Reason.BOOT_TIMEOUT, entered_at=NOW)
        late = rescued_late(given, spec())
        assert (late is not None) == (state is NodeState.FAILED)


# --- an operation moves with its nodes ------------------------------------------------------------


def test_an_operation_is_given_the_time_that_its_booting_nodes_were_given() -> None:
    extended = booting(deadline_at=NOW + 500, deadline_source="extension")
    other = booting(deadline_at=NOW + 9000)
    op = operation(deadline_at=NOW + 500)
    until = NOW + 500 + deadlines.attach_timeout(spec())
    assert deadlines.later_deadline(op, [extended, other], spec()) == until
    assert deadlines.later_deadline(replace(op, deadline_at=until), [extended], spec()) is None
    assert deadlines.later_deadline(op, [replace(extended, booted_at=NOW)], spec()) is None
    assert deadlines.later_deadline(replace(op, deadline_source=deadlines.HARD), [extended], spec()) is None


# --- the dead man ---------------------------------------------------------------------------------


def _dead_man(judged: Node, op: Operation | None, limits: Limits = ODD, **fields: Any) -> float:
    """When the node stops by itself, if it hears nothing after NOW."""
    template = spec(**({"rescue_window": 13.0, "idle_timeout": 41.0, "max_runtime": 99.0} | fields))
    return NOW + deadlines.dead_man(judged, op, template, max_runtime=99.0, now=NOW, limits=limits)


GRACE = 13.0 + deadlines.DEAD_MAN_GRACE


@pytest.mark.parametrize("state", [NodeState.CLAIMED, NodeState.RUNNING])
def test_under_an_assignment_the_dead_man_covers_the_provision_and_the_longest_run(state: NodeState) -> None:
    op = operation(deadline_at=NOW + 200)
    assert _dead_man(node(state, deadline_at=NOW + 5), op) == NOW + 200 + 99.0 + GRACE
    assert _dead_man(node(state, deadline_at=None), op) == NOW + 200 + 99.0 + GRACE


def test_the_dead_man_of_a_boot_under_an_assignment_covers_its_longest_extension() -> None:
    booting = node(NodeState.CREATED, deadline_at=NOW + 5)
    boot = booting.entered_at + deadlines.max_boot(spec(), ODD) + deadlines.attach_timeout(spec())
    assert _dead_man(booting, operation(deadline_at=NOW)) == boot + 99.0 + GRACE


def test_a_node_whose_own_deadline_is_later_keeps_that() -> None:
    extended = node(NodeState.RUNNING, deadline_at=NOW + 5000)
    assert _dead_man(extended, operation(deadline_at=NOW)) == NOW + 5000 + GRACE


def test_an_idle_nodes_dead_man_covers_its_next_renewal() -> None:
    assert _dead_man(node(NodeState.IDLE, deadline_at=NOW + 5), None) == NOW + 41.0 + GRACE
    assert _dead_man(node(NodeState.IDLE, deadline_at=NOW + 70), None) == NOW + 70 + GRACE


def test_a_record_without_a_deadline_has_a_dead_man_all_the_same() -> None:
    assert _dead_man(node(NodeState.IDLE, deadline_at=None), None) == NOW + 41.0 + GRACE
    booting = node(assignment_id=None, entered_at=NOW, deadline_at=None)
    assert _dead_man(booting, None) == NOW + 2 * ODD.boot + GRACE


def test_a_booting_nodes_dead_man_covers_the_longest_boot_from_when_it_was_made() -> None:
    for booting, op in [(node(assignment_id=None), operation()), (node(), None)]:
        made = replace(booting, entered_at=NOW - 7, deadline_at=NOW + 5)
        assert _dead_man(made, op) == NOW - 7 + 2 * ODD.boot + GRACE
        assert _dead_man(made, op, limits=Limits(boot=5000.0)) == NOW - 7 + 10_000 + GRACE


def test_a_dead_man_always_leaves_the_rescue_and_the_grace() -> None:
    over = node(NodeState.TERMINATING, entered_at=0.0)
    assert _dead_man(over, None) == NOW + GRACE


@modest
@given(
    st.sampled_from([state for state in NodeState if state is not NodeState.TERMINATED]),
    st.floats(-5000, 5000),
    st.floats(-5000, 5000),
    st.booleans(),
    st.booleans(),
)
def test_no_deadline_that_a_node_may_get_is_beyond_its_dead_man(
    state: NodeState, own: float, whole: float, bound: bool, known: bool
) -> None:
    judged = node(state, deadline_at=NOW + own, entered_at=NOW - 1)
    if not bound:
        judged = replace(judged, assignment_id=None, operation_id=None)
    op = operation(deadline_at=NOW + whole) if known else None
    stops = _dead_man(judged, op)
    assert stops > NOW + own
    if state is NodeState.IDLE:
        assert stops > NOW + spec(idle_timeout=41.0).idle_timeout
    elif bound and known and judged.assignment_id is not None:
        committed_last = NOW + whole
        assert stops > committed_last + 99.0
        verdict = judged_by(judged, op)
        assert not isinstance(verdict, Extended) or stops > verdict.deadline_at
    else:
        assert stops > judged.entered_at + deadlines.max_boot(spec(), ODD)
