"""What is wrong, first: each rule on both sides of its limit, and the order of what is found."""

from dataclasses import replace
from typing import Any

import pytest

from muster.domain import verdicts
from muster.domain.failures import Failed, Failure, Group, grouped
from muster.domain.findings import About, Culprit, Finding
from muster.domain.health import Health
from muster.domain.ids import NodeId, OperationId
from muster.domain.lifecycle import NodeState
from muster.domain.observations import (
    DAY,
    HOUR,
    LATE_LEAST,
    LATE_TICKS,
    MINUTE,
    Calls,
    ClusterSign,
    Dependency,
    DutyObservation,
    Observations,
    aged,
    late,
)
from muster.domain.progress import Tone
from muster.domain.reasons import Reason
from muster.domain.undelivered import Backlog
from muster.domain.verdicts import all_well, judge
from muster.domain.wait_reasons import Waiting, WaitsFor
from muster.integrations.process.tables import ADVICE as LOCAL_ADVICE
from tests.domain.builders import NOW, SMALLEST, node

HEALTHY = {"web": {Health.READY: 8}, "ci": {Health.READY: 2}}
QUIET = Observations(
    now=NOW,
    store=Calls(window=300.0),
    dependencies=(),
    duties=(),
    waiting=(),
    failures=(),
    handed_over={},
    health=HEALTHY,
    stuck=(),
    orphans=(),
    paused=(),
)
BAD, DOUBTFUL = Tone.DANGER, Tone.WARNING


def found(**fields: Any) -> list[tuple[str, Tone, Culprit]]:
    return [(each.code, each.tone, each.culprit) for each in judge(replace(QUIET, **fields))]


def calls(calls: int, errors: int = 0, throttled: int = 0, p95: float | None = 0.01) -> Calls:
    return Calls(window=300.0, calls=calls, errors=errors, throttled=throttled, p95=p95)


def waits(reason: WaitsFor, age: float, count: int = 2) -> Waiting:
    return Waiting(reason=reason, count=count, oldest_since=NOW - age, operation_ids=(OperationId("op-1"),))


def group(count: int, **fields: Any) -> Group:
    given: dict[str, Any] = {
        "what": Failed.NODE,
        "reason": Reason.BOOT_TIMEOUT,
        "template": "web",
        "revision": 3,
        "operation_id": None,
    }
    (one,) = grouped(
        [Failure(id=f"n{n}", at=NOW - n, node_id=NodeId(f"n{n}"), **(given | fields)) for n in range(count)]
    )
    return one


# --- nothing --------------------------------------------------------------------------------------


def test_all_is_well_if_nothing_is_found() -> None:
    assert judge(QUIET) == ()
    verdict = all_well(QUIET)
    assert (verdict.tone, verdict.culprit) == (Tone.SUCCESS, Culprit.NONE)
    assert verdict.text == "All is well: 10 nodes up, nothing waits."
    busy = all_well(replace(QUIET, waiting=(waits(WaitsFor.BOOT, 5.0, count=1),)))
    assert busy.text.endswith("1 operation under way.")
    seen = all_well(QUIET, acknowledged=2)
    assert seen.text == "No new findings: 10 nodes up, nothing waits. 2 findings acknowledged."


# --- us -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("store", "expected"),
    [
        (calls(verdicts.LEAST_CALLS - 1, errors=4), []),
        (calls(verdicts.LEAST_CALLS, errors=5), [("store_failing", BAD, Culprit.US)]),
        (calls(100, errors=9), []),
        (calls(100, errors=10), [("store_failing", BAD, Culprit.US)]),
        (calls(verdicts.LEAST_CALLS - 1, p95=2.0), []),
        (calls(100, p95=None), []),
        (calls(100, p95=verdicts.STORE_SLOW), []),
        (calls(100, p95=verdicts.STORE_SLOW + SMALLEST), [("store_slow", DOUBTFUL, Culprit.US)]),
        (calls(100, p95=verdicts.STORE_STOPS), [("store_slow", DOUBTFUL, Culprit.US)]),
        (calls(100, p95=verdicts.STORE_STOPS + SMALLEST), [("store_slow", BAD, Culprit.US)]),
    ],
)
def test_a_store_that_fails_or_is_slow_is_our_fault(
    store: Calls, expected: list[tuple[str, Tone, Culprit]]
) -> None:
    assert found(store=store) == expected


def test_a_slow_store_is_told_with_what_was_measured_and_the_limit() -> None:
    (slow,) = judge(replace(QUIET, store=calls(100, p95=0.25)))
    assert slow.text == ("The store is slow: 5% of its calls take more than 100 ms (p95 up to 250 ms).")


@pytest.mark.parametrize(
    ("said", "store", "other"),
    [
        (calls(0), Tone.PENDING, Tone.PENDING),
        (calls(verdicts.LEAST_CALLS - 1, errors=4), Tone.PENDING, Tone.PENDING),
        (calls(100), Tone.SUCCESS, Tone.SUCCESS),
        (calls(100, errors=10), BAD, DOUBTFUL),
        (calls(100, errors=50), BAD, BAD),
        (calls(100, throttled=20), Tone.SUCCESS, DOUBTFUL),
        (calls(100, p95=0.25), DOUBTFUL, Tone.SUCCESS),
        (calls(100, p95=5.0), BAD, Tone.SUCCESS),
    ],
)
def test_figures_have_the_tone_that_the_verdict_gives_them(said: Calls, store: Tone, other: Tone) -> None:
    assert (verdicts.tone_of_store(said), verdicts.tone_of(said)) == (store, other)


def test_duties_that_are_late_are_named_once() -> None:
    duties = [DutyObservation(name=f"duty-{n}", every=5.0, ticked_at=NOW - 74, late=True) for n in range(5)]
    duties[1] = replace(duties[1], ticked_at=None)
    (finding,) = judge(replace(QUIET, duties=duties))
    assert (finding.code, finding.tone, finding.culprit) == ("duty_late", BAD, Culprit.US)
    overdue = "duty-0 (1 min), duty-1 (never ran), duty-2 (1 min) and 2 more"
    assert finding.text == f"5 controllers are overdue: {overdue}."
    (one,) = judge(replace(QUIET, duties=duties[:1]))
    assert one.text == "1 controller is overdue: duty-0 (1 min)."


def test_a_duty_that_was_interrupted_is_doubtful() -> None:
    duty = DutyObservation(
        name="reaper", every=5.0, ticked_at=NOW, late=False, problem="Uncertain: no answer"
    )
    assert found(duties=[duty]) == [("duty_interrupted", DOUBTFUL, Culprit.US)]
    assert found(duties=[replace(duty, late=True)]) == [("duty_late", BAD, Culprit.US)]


@pytest.mark.parametrize("every", [5.0, 3600.0])
def test_a_duty_is_late_after_some_of_its_intervals_and_a_little_more(every: float) -> None:
    patience = LATE_TICKS * every + LATE_LEAST
    for begun, ticked in ((0.0, NOW), (NOW, 0.0), (NOW, None)):
        assert not late(ticked, every=every, since=begun, now=NOW + patience)
        assert late(ticked, every=every, since=begun, now=NOW + patience + SMALLEST)


def test_work_without_a_driver_is_our_fault_after_a_while() -> None:
    assert found(waiting=[waits(WaitsFor.DRIVER, verdicts.UNDRIVEN)]) == []
    assert found(waiting=[waits(WaitsFor.DRIVER, verdicts.UNDRIVEN + SMALLEST)]) == [
        ("undriven", BAD, Culprit.US)
    ]
    assert found(waiting=[waits(WaitsFor.BOOT, 5000.0)]) == []


# --- the cloud, GitHub ----------------------------------------------------------------------------


@pytest.mark.parametrize("culprit", [Culprit.CLOUD, Culprit.RUNTIME])
@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (calls(0), None),
        (calls(verdicts.LEAST_CALLS - 1, errors=4), None),
        (calls(verdicts.LEAST_CALLS, errors=5), ("provider_failing", BAD)),
        (calls(100, errors=9), None),
        (calls(100, errors=10), ("provider_failing", DOUBTFUL)),
        (calls(100, errors=49), ("provider_failing", DOUBTFUL)),
        (calls(100, errors=50), ("provider_failing", BAD)),
        (calls(100, throttled=19), None),
        (calls(100, throttled=20), ("provider_throttles", DOUBTFUL)),
        (calls(100, errors=10, throttled=90), ("provider_failing", DOUBTFUL)),
    ],
)
def test_a_provider_is_judged_by_its_rate_of_errors(
    said: Calls, expected: tuple[str, Tone] | None, culprit: Culprit
) -> None:
    told = found(dependencies=[Dependency(name="ec2", calls=said, culprit=culprit)])
    assert told == ([] if expected is None else [(*expected, culprit)])


def test_machines_that_linger_are_told_with_the_oldest() -> None:
    stuck = [node(NodeState.TERMINATING, n, entered_at=NOW - 1200 + n) for n in (1, 2)]
    (finding,) = judge(replace(QUIET, stuck=stuck))
    assert (finding.code, finding.tone, finding.culprit) == ("stuck_terminating", DOUBTFUL, Culprit.CLOUD)
    assert "2 machines" in finding.text and "20 min" in finding.text
    assert finding.about == About(kind="node", id="node-1")
    assert found(orphans=stuck) == [("orphans", DOUBTFUL, Culprit.US)]


@pytest.mark.parametrize(
    ("offline", "ready", "expected"),
    [
        (0, 10, []),
        (1, 0, [("nodes_offline", DOUBTFUL, Culprit.CLOUD)]),
        (verdicts.FEW - 1, 0, [("nodes_offline", DOUBTFUL, Culprit.CLOUD)]),
        (verdicts.FEW, verdicts.FEW, [("nodes_offline", BAD, Culprit.US)]),
        (verdicts.FEW, verdicts.FEW + 1, [("nodes_offline", DOUBTFUL, Culprit.CLOUD)]),
    ],
)
def test_if_most_nodes_are_silent_it_is_not_the_nodes(
    offline: int, ready: int, expected: list[tuple[str, Tone, Culprit]]
) -> None:
    told = found(health={"web": {Health.OFFLINE: offline}, "ci": {Health.READY: ready}})
    assert told == expected


@pytest.mark.parametrize(
    ("feeling", "expected"),
    [
        ({Health.DEGRADED: 2}, DOUBTFUL),
        ({Health.DEGRADED: verdicts.FEW}, BAD),
        ({Health.DEGRADED: 9, Health.READY: 1}, None),
        ({Health.DEGRADED: 9, Health.STARTING: 1}, None),
    ],
)
def test_if_no_node_of_a_template_is_well_it_is_the_template(
    feeling: dict[Health, int], expected: Tone | None
) -> None:
    told = found(health={**HEALTHY, "shop": feeling})
    assert told == ([] if expected is None else [("template_unwell", expected, Culprit.TEMPLATE)])


def test_a_template_without_a_well_node_is_told_with_those_that_are_silent() -> None:
    health = {**HEALTHY, "shop": {Health.DEGRADED: 1, Health.OFFLINE: 1}}
    silent, unwell = judge(replace(QUIET, health=health))
    assert silent.text == "No heartbeat from 1 of 12 nodes."
    assert unwell.text == "No node of shop is healthy: 1 of 2 degraded, 1 offline."
    assert unwell.about == About(kind="template", id="shop")


# --- what failed ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "handed", "expected"),
    [
        (1, NOW, None),
        (1, NOW - SMALLEST, DOUBTFUL),
        (1, None, DOUBTFUL),
        (verdicts.FEW - 1, NOW, None),
        (verdicts.FEW, NOW, DOUBTFUL),
        (verdicts.FEW - 1, None, DOUBTFUL),
        (verdicts.FEW, None, BAD),
    ],
)
def test_failures_count_the_more_if_nothing_got_through_since(
    count: int, handed: float | None, expected: Tone | None
) -> None:
    known = {} if handed is None else {"web": handed}
    told = found(failures=[group(count)], handed_over=known)
    assert told == ([] if expected is None else [("failures", expected, Culprit.TEMPLATE)])


@pytest.mark.parametrize(
    ("reason", "culprit"),
    [
        (Reason.BOOT_SCRIPT_FAILED, Culprit.TEMPLATE),
        (Reason.CAPACITY, Culprit.CLOUD),
        (Reason.PROVIDER_ERROR, Culprit.CLOUD),
        (Reason.CAP_REACHED, Culprit.DEMAND),
        (Reason.ABOVE_CAP, Culprit.DEMAND),
        (Reason.INTERNAL, Culprit.US),
    ],
)
def test_whose_fault_a_failure_is_follows_from_its_reason(reason: Reason, culprit: Culprit) -> None:
    (finding,) = judge(replace(QUIET, failures=[group(1, reason=reason)]))
    assert finding.culprit is culprit
    assert finding.text == f"1 node of web revision 3 failed in the last hour: {reason.replace('_', ' ')}."
    assert finding.advice[0].isupper() and finding.advice.endswith(".")
    assert finding.about == About(kind="node", id="n0")


def test_commands_that_fail_are_their_callers_affair() -> None:
    assert judge(replace(QUIET, failures=[group(verdicts.FEW + 1, reason=Reason.COMMAND_FAILED)])) == ()


def test_a_failure_without_node_or_template_is_told_as_far_as_it_is_known() -> None:
    bare = replace(group(1, what=Failed.OPERATION, template=None, revision=None), node_id=None)
    (finding,) = judge(replace(QUIET, failures=[bare]))
    assert finding.text.startswith("1 operation failed in the last hour")
    assert finding.about is None
    (linked,) = judge(replace(QUIET, failures=[replace(bare, operation_id=OperationId("op-1"))]))
    assert linked.about == About(kind="operation", id="op-1")


def test_what_is_wrong_now_is_told_before_what_failed_an_hour_ago() -> None:
    """However bad that was."""
    old = replace(group(verdicts.FEW), last_at=NOW - verdicts.RECENT - SMALLEST)
    present, past = judge(replace(QUIET, failures=[old], paused=["ci"]))
    assert (present.code, present.over) == ("paused", False)
    assert (past.code, past.tone, past.over) == ("failures", DOUBTFUL, True)
    assert "in the last hour, the last 10 min ago: boot timeout." in past.text
    fresh = replace(group(verdicts.FEW), last_at=NOW - verdicts.RECENT)
    (first, _) = judge(replace(QUIET, failures=[fresh], paused=["ci"]))
    assert (first.code, first.tone, first.over) == ("failures", BAD, False)


@pytest.mark.parametrize(
    ("reason", "culprit", "advice"),
    [
        (Reason.CAPACITY, Culprit.DEMAND, "raise capacity under [process]"),
        (Reason.PROVIDER_ERROR, Culprit.MACHINE, "muster doctor"),
        (Reason.MACHINE_GONE, Culprit.MACHINE, "process ended"),
        (Reason.BOOT_SCRIPT_FAILED, Culprit.TEMPLATE, "boot script"),
    ],
)
def test_what_fails_on_this_machine_is_not_the_clouds_fault(
    reason: Reason, culprit: Culprit, advice: str
) -> None:
    failure = Failure(
        id="n1",
        what=Failed.NODE,
        at=NOW,
        reason=reason,
        template="web",
        revision=3,
        node_id=NodeId("n1"),
        operation_id=None,
    )
    (finding,) = judge(replace(QUIET, failures=grouped([failure], local={"web": LOCAL_ADVICE})))
    assert finding.culprit is culprit and advice in finding.advice
    assert "zone" not in finding.advice and "status page" not in finding.advice


def test_the_provider_of_this_machine_has_no_status_page() -> None:
    (finding,) = judge(
        replace(
            QUIET,
            dependencies=[Dependency(name="here", calls=calls(10, errors=9), culprit=Culprit.MACHINE)],
        )
    )
    assert finding.culprit is Culprit.MACHINE and "muster doctor" in finding.advice
    silent = {"web": {Health.OFFLINE: 1, Health.READY: 5}}
    assert found(health=silent, local=["web"]) == [("nodes_offline", DOUBTFUL, Culprit.MACHINE)]
    stuck = [node()]
    assert found(stuck=stuck, local=[stuck[0].template]) == [("stuck_terminating", DOUBTFUL, Culprit.MACHINE)]


# --- clusters -------------------------------------------------------------------------------------

FAILED = ClusterSign(
    name="prod",
    operation_id="op-1",
    reason=Reason.QUOTA,
    detail="24 cores are missing",
    since=NOW - DAY,
    left=True,
    deleting=False,
)


def test_a_failed_cluster_is_told_for_as_long_as_it_is_there() -> None:
    (finding,) = judge(replace(QUIET, clusters=[FAILED]))
    assert (finding.code, finding.tone, finding.culprit) == ("cluster_failed", BAD, Culprit.CLOUD)
    assert finding.text == "Cluster prod failed, and its resources are still there: 24 cores are missing."
    assert "`muster clusters delete prod`" in finding.advice
    assert (finding.id, finding.about) == ("cluster_failed.prod", About(kind="operation", id="op-1"))


def test_a_cluster_that_is_being_undone_is_told_before_that_has_ended() -> None:
    failing = replace(FAILED, left=False)
    (finding,) = judge(replace(QUIET, clusters=[failing]))
    assert (finding.code, finding.tone) == ("cluster_failing", DOUBTFUL)
    assert finding.text == "Cluster prod can't be created: 24 cores are missing."
    (finding,) = judge(replace(QUIET, clusters=[replace(failing, deleting=True, reason=None, detail="")]))
    assert finding.text == "Cluster prod can't be deleted." and finding.culprit is Culprit.TEMPLATE


def test_the_operation_of_a_cluster_is_not_told_twice() -> None:
    one = replace(group(1, what=Failed.OPERATION), operation_id=OperationId("op-1"))
    assert [each.code for each in judge(replace(QUIET, clusters=[FAILED], failures=[one]))] == [
        "cluster_failed"
    ]


def test_findings_are_named_apart() -> None:
    signs = replace(
        QUIET,
        clusters=[FAILED, replace(FAILED, name="test")],
        failures=[group(1), group(1, template="ci")],
        paused=[None, "ci"],
    )
    assert {each.id for each in judge(signs)} == {
        "cluster_failed.prod",
        "cluster_failed.test",
        "failures.boot_timeout.web.3",
        "failures.boot_timeout.ci.3",
        "paused.everything.ci",
    }


# --- brakes and demand ----------------------------------------------------------------------------


def test_a_brake_that_is_pulled_is_told_with_what_it_holds_back() -> None:
    assert found(paused=["ci"]) == [("paused", DOUBTFUL, Culprit.OPERATOR)]
    (finding,) = judge(replace(QUIET, paused=[None, "ci"], waiting=[waits(WaitsFor.PAUSED, 1.0)]))
    assert finding.text == "Paused: everything, ci. 2 operations wait."
    assert finding.about == About(kind="template", id="ci")


def test_a_queue_is_told_once_its_oldest_has_waited_for_a_while() -> None:
    assert found(waiting=[waits(WaitsFor.ROOM, verdicts.QUEUED)]) == []
    assert found(waiting=[waits(WaitsFor.ROOM, verdicts.QUEUED + SMALLEST)]) == [
        ("no_room", DOUBTFUL, Culprit.DEMAND)
    ]


# --- order ----------------------------------------------------------------------------------------


def test_the_worst_comes_first_and_our_own_fault_before_anothers() -> None:
    codes = [
        code
        for code, _, _ in found(
            store=calls(100, p95=0.5),
            dependencies=[Dependency(name="ec2", calls=calls(10, errors=10))],
            failures=[group(5)],
            paused=["ci"],
            waiting=[waits(WaitsFor.DRIVER, 100.0), waits(WaitsFor.ROOM, 100.0)],
        )
    ]
    assert codes == ["undriven", "provider_failing", "failures", "store_slow", "paused", "no_room"]


def test_every_sentence_ends_and_every_finding_says_what_to_do() -> None:
    everything: tuple[Finding, ...] = judge(
        replace(
            QUIET,
            store=calls(100, errors=50),
            duties=[
                DutyObservation(name="a", every=1.0, ticked_at=None, late=True),
                DutyObservation(name="b", every=1.0, ticked_at=NOW, late=False, problem="x"),
            ],
            dependencies=[Dependency(name="ec2", calls=calls(10, throttled=10))],
            failures=[group(1)],
            health={"web": {Health.OFFLINE: 1, Health.DEGRADED: 1}},
            stuck=[node(NodeState.TERMINATING)],
            orphans=[node(NodeState.TERMINATING)],
            paused=["ci"],
            waiting=[waits(WaitsFor.DRIVER, 100.0), waits(WaitsFor.ROOM, 100.0)],
        )
    )
    assert len(everything) == 12
    assert all(each.text.endswith(".") and each.advice.endswith(".") for each in everything)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1.0, "0 s"),
        (59.0, "59 s"),
        (MINUTE, "1 min"),
        (HOUR - MINUTE, "59 min"),
        (HOUR, "1 h"),
        (2 * DAY - HOUR, "47 h"),
        (2 * DAY, "2 d"),
    ],
)
def test_ages_are_short_enough_for_a_sentence(seconds: float, words: str) -> None:
    assert aged(seconds) == words


def backlog(*, waiting: int = 0, since: float | None = None, given_up: int = 0, **more: Any) -> Backlog:
    fields = {"webhook": "chat", "oldest_since": since, "given_up_at": None, "problem": "it answered 500"}
    return Backlog(waiting=waiting, given_up=given_up, **{**fields, **more})


def test_a_webhook_whose_messages_wait_for_long_or_were_given_up_is_found() -> None:
    edge = NOW - verdicts.UNDELIVERED
    assert found(undelivered=[backlog(waiting=1, since=edge)]) == []
    (waits,) = judge(replace(QUIET, undelivered=[backlog(waiting=1, since=edge - 1.0)]))
    assert (waits.code, waits.tone, waits.id) == ("webhook_waits", DOUBTFUL, "webhook_waits.chat")
    assert waits.text == "1 message of webhook chat waits, the oldest for 1 min: it answered 500."
    (dropped,) = judge(replace(QUIET, undelivered=[backlog(given_up=2, given_up_at=NOW - 5.0)]))
    assert (dropped.code, dropped.over, dropped.happened_at) == ("webhook_dropped", True, NOW - 5.0)
    assert dropped.text == "2 messages of webhook chat were given up, the last 5 s ago."
    assert "muster webhooks resend chat" in dropped.advice
    removed = replace(backlog(waiting=1, given_up=2, since=edge - 1.0, given_up_at=NOW - 5.0), removed=True)
    (gone,) = judge(replace(QUIET, undelivered=[removed]))
    assert gone.text == "Webhook chat is no longer in the settings, and has 3 undelivered messages."
    assert gone.code == "webhook_removed" and "muster webhooks forget chat" in gone.advice
