"""Apps that are nodes themselves: what they may say, when their silence counts, why they are turned away."""

from dataclasses import replace
from typing import Any

import pytest

from muster.domain import app as apps
from muster.domain import checks
from muster.domain import node as nodes
from muster.domain.app import KEY_LEAST, App, enrolled, hand_over, is_gone, turned_away
from muster.domain.boot import Phase
from muster.domain.deadlines import Deadline, Limits
from muster.domain.desired_state import Directive, desired
from muster.domain.errors import IllegalTransition, InvalidRequest, Lost, Removed
from muster.domain.health import PROBE_ROUNDS, Health, Vitals
from muster.domain.ids import AssignmentId, NodeId
from muster.domain.lifecycle import LIVE, NodeState
from muster.domain.node import Node
from muster.domain.reasons import Reason
from muster.domain.template import EXTERNAL, Reuse, Runtime, Template, TemplateSpec
from tests.domain.builders import LIMITS, NOW, OPERATION, SMALLEST, node, template

SPEC = TemplateSpec(name="web", provider=EXTERNAL, runtime=Runtime.SERVICE)


def app(**given: Any) -> App:
    said: dict[str, Any] = {"key": "k" * 16, "boot_id": "boot-1", "name": "web-1", "beat_seconds": 5.0}
    return App(**(said | given))


def service(state: NodeState = NodeState.RUNNING, **given: Any) -> Node:
    return node(state, provider=EXTERNAL, **({"operation_id": None} | given))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("key", "k" * 15),
        ("key", ""),
        ("boot_id", ""),
        ("name", ""),
        ("name", "two\nlines"),
        ("beat_seconds", apps.BEAT_LEAST - 0.001),
        ("beat_seconds", apps.BEAT_MOST + 0.001),
        ("beat_seconds", True),
        ("beat_seconds", float("nan")),
    ],
)
def test_an_app_that_makes_no_sense_is_refused_by_field(field: str, value: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        app(**{field: value})
    assert refused.value.field == field


def test_a_key_is_never_shown_in_its_own_refusal() -> None:
    with pytest.raises(InvalidRequest) as refused:
        app(key="almost-a-secret")
    assert "almost-a-secret" not in str(refused.value)


@pytest.mark.parametrize("beat", [apps.BEAT_LEAST, 19.0, 20.0, apps.BEAT_MOST])
def test_silence_counts_in_the_apps_own_beats_and_never_below_the_setting(beat: float) -> None:
    limits = Limits()
    found = apps.stale_after(app(beat_seconds=beat), flush_every=1.0, limits=limits)
    assert found == max(limits.service_stale_after, 1.0 + 3 * beat)
    assert found >= limits.service_stale_after


def test_an_app_is_enrolled_under_its_own_assignment_with_a_deadline_to_accept() -> None:
    made = apps.enrolled(
        app(address="http://10.0.0.5:8000/health"),
        Template(spec=SPEC, revision=3, applied_at=0.0),
        node_id=NodeId("node-1"),
        machine_id="app-1",
        assignment_id=AssignmentId("as-1"),
        deadline=Deadline(seconds=720.0, source="default"),
        now=NOW,
    )
    assert (made.state, made.deadline_at, made.deadline_source) == (NodeState.CREATED, NOW + 720, "default")
    assert (made.assignment_id, made.run, made.operation_id, made.launch_id) == ("as-1", "web-1", None, None)
    assert (made.provider, made.revision, made.address) == (EXTERNAL, 3, "http://10.0.0.5:8000/health")
    assert made.enrolled
    assert desired(made, dead_man=1.0).directive is Directive.ATTACH


def test_an_app_is_handed_over_without_an_operation_and_without_a_latest_time() -> None:
    ready = service(NodeState.CREATED, booted_at=NOW, attached_at=NOW)
    change = nodes.hand_over(ready, now=NOW, deadline_at=None)
    assert (change.after.state, change.guard) == (NodeState.RUNNING, None)
    assert (change.after.deadline_at, change.after.deadline_source) == (None, "")


def test_only_apps_are_handed_over_without_an_operation() -> None:
    with pytest.raises(IllegalTransition, match="hand over"):
        nodes.hand_over(
            node(NodeState.CREATED, booted_at=NOW, attached_at=NOW, operation_id=None),
            now=NOW,
            deadline_at=None,
        )
    unattached = service(NodeState.CREATED, booted_at=NOW, attached_at=None)
    with pytest.raises(IllegalTransition, match="hand over"):
        nodes.hand_over(unattached, now=NOW, deadline_at=None)
    bound = service(NodeState.CREATED, booted_at=NOW, attached_at=NOW, operation_id=OPERATION)
    assert nodes.hand_over(bound, now=NOW, deadline_at=None).guard is not None


@pytest.mark.parametrize("state", LIVE)
def test_an_app_leaves_whatever_it_does(state: NodeState) -> None:
    after = nodes.leave(service(state), now=NOW).after
    assert (after.state, after.reason, after.left_at) == (NodeState.TERMINATING, Reason.LEFT, NOW)


def test_a_condemned_app_says_once_that_it_heard_it() -> None:
    before = service(NodeState.TERMINATING, reason=Reason.OPERATOR)
    change = nodes.left(before, now=NOW)
    assert change.after == replace(before, version=before.version + 1, left_at=NOW)
    with pytest.raises(IllegalTransition):
        nodes.left(change.after, now=NOW + 1)
    for state in (*LIVE, NodeState.TERMINATED):
        with pytest.raises(IllegalTransition):
            nodes.left(service(state), now=NOW)


def test_a_machine_does_not_leave() -> None:
    with pytest.raises(IllegalTransition, match="as an app"):
        nodes.leave(node(NodeState.RUNNING), now=NOW)
    with pytest.raises(IllegalTransition, match="as an app"):
        nodes.left(node(NodeState.TERMINATING), now=NOW)


def test_a_condemned_app_is_told_to_leave_not_to_stop() -> None:
    for state in (NodeState.TERMINATING, NodeState.TERMINATED):
        assert desired(service(state), dead_man=1.0).directive is Directive.LEAVE


@pytest.mark.parametrize("reason", [*Reason, None])
def test_only_a_deliberate_end_keeps_an_app_out(reason: Reason | None) -> None:
    told = apps.turned_away(service(NodeState.TERMINATING, reason=reason, detail="silent"))
    assert isinstance(told, Removed if reason in apps.REMOVALS else Lost)
    assert "node-1" in str(told)


def test_a_template_of_apps_is_a_service_that_never_pools() -> None:
    assert SPEC.enrols and SPEC.reuse is Reuse.SAME_OWNER and not SPEC.pools
    with pytest.raises(InvalidRequest, match="runtime"):
        TemplateSpec(name="web", provider=EXTERNAL)


def test_the_app_that_answers_at_an_address_now_displaces_the_one_before() -> None:
    before = service(address="http://10.0.0.5:8000/health")
    change = nodes.displaced(before, now=NOW)
    assert change.after == replace(before, version=before.version + 1, address="")
    with pytest.raises(IllegalTransition, match="as an app"):
        nodes.displaced(node(NodeState.RUNNING), now=NOW)


LOST = LIMITS.lost_after


def applicant(**fields: Any) -> App:
    given: dict[str, Any] = {"key": "k" * KEY_LEAST, "boot_id": "boot-1", "name": "web", "beat_seconds": 5.0}
    return App(**(given | fields))


def condemned(**fields: Any) -> Node:
    return node(NodeState.TERMINATING, provider=EXTERNAL, **fields)


@pytest.mark.parametrize("side", [-SMALLEST, 0.0, SMALLEST])
@pytest.mark.parametrize(
    ("seen", "joined"),
    [(LOST, 10 * LOST), (10 * LOST, LOST), (LOST, None), (None, LOST)],
    ids=["seen last", "joined last", "never joined", "never seen"],
)
def test_an_app_is_gone_once_it_was_silent_for_long_enough(
    seen: float | None, joined: float | None, side: float
) -> None:
    def ago(seconds: float | None) -> float | None:
        return None if seconds is None else NOW - seconds - side

    silent = condemned(joined_at=ago(joined))
    assert is_gone(silent, seen_at=ago(seen), now=NOW, lost_after=LOST) is (side >= 0)


@pytest.mark.parametrize("side", [-SMALLEST, 0.0])
def test_an_app_that_was_never_heard_is_gone_after_the_same_time(side: float) -> None:
    assert is_gone(condemned(), seen_at=None, now=LOST + side, lost_after=LOST) is (side >= 0)


def test_an_app_that_left_is_gone_at_once() -> None:
    assert is_gone(condemned(left_at=NOW), seen_at=NOW, now=NOW, lost_after=LOST)


@pytest.mark.parametrize(
    ("reason", "detail", "why"),
    [
        (Reason.OPERATOR, "", "operator"),
        (Reason.CANCELLED, "by alice", "cancelled: by alice"),
        (Reason.RETIRED, "", "retired"),
    ],
)
def test_an_app_that_was_removed_by_hand_hears_so_and_why(reason: Reason, detail: str, why: str) -> None:
    told = turned_away(condemned(reason=reason, detail=detail))
    assert isinstance(told, Removed)
    assert f"({why})" in str(told)


@pytest.mark.parametrize(
    ("reason", "detail", "why"),
    [(None, "", "its time is over"), (Reason.MACHINE_GONE, "silent", f"{Reason.MACHINE_GONE}: silent")],
)
def test_an_app_that_was_given_up_may_enrol_anew(reason: Reason | None, detail: str, why: str) -> None:
    told = turned_away(condemned(reason=reason, detail=detail))
    assert isinstance(told, Lost)
    assert f"({why})" in str(told)


@pytest.mark.parametrize("length", [KEY_LEAST - 1, KEY_LEAST, checks.RUN_MAX, checks.RUN_MAX + 1])
def test_a_key_is_neither_short_nor_endless(length: int) -> None:
    if KEY_LEAST <= length <= checks.RUN_MAX:
        assert applicant(key="k" * length).key == "k" * length
        return
    with pytest.raises(InvalidRequest) as refused:
        applicant(key="k" * length)
    assert refused.value.field == "key"


def test_a_beat_that_is_no_number_is_refused_by_its_field() -> None:
    with pytest.raises(InvalidRequest) as refused:
        applicant(beat_seconds=True)
    assert refused.value.field == "beat_seconds"
    with pytest.raises(InvalidRequest):
        applicant(beat_seconds="5")


def test_an_app_begins_as_joined() -> None:
    made = enrolled(
        applicant(address="http://a"),
        template(provider=EXTERNAL, runtime=Runtime.SERVICE),
        node_id=NodeId("node-1"),
        machine_id="m",
        assignment_id=AssignmentId("as-1"),
        deadline=Deadline(seconds=7.0, source="default"),
        now=NOW,
    )
    assert (made.phase, made.address, made.deadline_at) == (Phase.JOINED.value, "http://a", NOW + 7.0)


# --- handing over by evidence ---------------------------------------------------------------------

TRANSITION = LIMITS.max_transition
PROBED = PROBE_ROUNDS * LIMITS.probe_every


def beating(**fields: Any) -> Vitals:
    """It has just joined, beats, and says `starting`."""
    given: dict[str, Any] = {"node_id": NodeId("node-1"), "joined_at": NOW, "seen_at": NOW}
    return Vitals(**(given | {"said": Health.STARTING} | fields))


def starting(**fields: Any) -> Node:
    given: dict[str, Any] = {
        "provider": EXTERNAL,
        "operation_id": None,
        "assignment_id": AssignmentId("as-1"),
    }
    return node(NodeState.CREATED, **(given | fields))


@pytest.mark.parametrize(
    ("vitals", "proof"),
    [
        (beating(), None),
        (beating(joined_at=NOW - TRANSITION), None),
        (
            beating(joined_at=NOW - TRANSITION - SMALLEST),
            f"heartbeats arrive, {TRANSITION:.0f} s after it joined",
        ),
        (beating(joined_at=NOW - 2 * TRANSITION, said=Health.OFFLINE), "heartbeats arrive, "),
        (beating(joined_at=NOW - 2 * TRANSITION, seen_at=NOW - LIMITS.stale_after), "heartbeats arrive, "),
        (beating(joined_at=NOW - 2 * TRANSITION, seen_at=NOW - LIMITS.stale_after - SMALLEST), None),
        (beating(joined_at=None), None),
        (beating(said=Health.READY), "the node reports ready"),
        (beating(said=Health.DEGRADED), "the node reports degraded"),
        (beating(said=Health.READY, seen_at=NOW - LIMITS.stale_after - SMALLEST), None),
        (beating(said=Health.OFFLINE), None),
        (beating(probe_passing_since=NOW - PROBED, probed_at=NOW - PROBED), "it answers probes"),
        (beating(probe_passing_since=NOW - PROBED, probed_at=NOW - PROBED - SMALLEST), None),
        (beating(probed_at=NOW), None),
        (beating(seen_at=None, probe_passing_since=NOW, probed_at=NOW), "it answers probes"),
    ],
)
def test_an_app_is_handed_over_once_something_proves_that_it_serves(
    vitals: Vitals, proof: str | None
) -> None:
    change = hand_over(starting(), vitals, now=NOW, limits=LIMITS)
    if proof is None:
        assert change is None
        return
    assert change is not None
    after = change.after
    assert (after.state, after.deadline_at, after.assignment_id) == (NodeState.RUNNING, None, "as-1")
    assert (after.booted_at, after.attached_at, after.phase) == (NOW, NOW, Phase.BOOTED)
    assert change.detail.startswith(proof) and not change.teaches


@pytest.mark.parametrize("age", [0.0, LIMITS.stale_after + SMALLEST])
def test_an_app_that_reported_half_of_its_start_is_handed_over_while_it_beats(age: float) -> None:
    half = starting(booted_at=NOW - 7.0)
    change = hand_over(half, beating(seen_at=NOW - age), now=NOW, limits=LIMITS)
    if age:
        assert change is None
    else:
        assert change is not None and (change.after.booted_at, change.after.attached_at) == (NOW - 7.0, NOW)


@pytest.mark.parametrize(
    "other",
    [
        starting(provider="process"),
        *(replace(starting(), state=state) for state in NodeState if state is not NodeState.CREATED),
    ],
)
def test_neither_machines_nor_apps_past_their_start_are_handed_over_by_evidence(other: Node) -> None:
    assert hand_over(other, beating(said=Health.READY), now=NOW, limits=LIMITS) is None
