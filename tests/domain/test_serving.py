"""Apps that are nodes themselves: what they may say, when their silence counts, why they are turned away."""

from dataclasses import replace
from typing import Any

import pytest

from muster.domain import node as nodes
from muster.domain import serving
from muster.domain.deadlines import Deadline, Limits
from muster.domain.desired import Directive, desired
from muster.domain.errors import IllegalTransition, InvalidRequest, Lost, Removed
from muster.domain.ids import AssignmentId, NodeId
from muster.domain.lifecycle import LIVE, NodeState
from muster.domain.node import Node
from muster.domain.reasons import Reason
from muster.domain.serving import App
from muster.domain.template import EXTERNAL, Reuse, Runtime, Template, TemplateSpec
from tests.domain.builders import NOW, OPERATION, node

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
        ("beat_seconds", serving.BEAT_LEAST - 0.001),
        ("beat_seconds", serving.BEAT_MOST + 0.001),
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


@pytest.mark.parametrize("beat", [serving.BEAT_LEAST, 19.0, 20.0, serving.BEAT_MOST])
def test_silence_counts_in_the_apps_own_beats_and_never_below_the_setting(beat: float) -> None:
    limits = Limits()
    found = serving.stale_after(app(beat_seconds=beat), flush_every=1.0, limits=limits)
    assert found == max(limits.service_stale_after, 1.0 + 3 * beat)
    assert found >= limits.service_stale_after


def test_an_app_is_enrolled_under_its_own_assignment_with_a_deadline_to_accept() -> None:
    made = serving.enrolled(
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


def test_nobody_else_is_handed_over_without_an_operation() -> None:
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
def test_only_what_somebody_meant_keeps_an_app_out(reason: Reason | None) -> None:
    told = serving.turned_away(service(NodeState.TERMINATING, reason=reason, detail="silent"))
    assert isinstance(told, Removed if reason in serving.REMOVALS else Lost)
    assert "node-1" in str(told)


def test_a_template_of_apps_is_a_service_that_never_pools() -> None:
    assert SPEC.enrols and SPEC.reuse is Reuse.SAME_OWNER and not SPEC.pools
    with pytest.raises(InvalidRequest, match="runtime"):
        TemplateSpec(name="web", provider=EXTERNAL)


def test_whoever_answers_at_an_address_now_displaces_the_one_before() -> None:
    before = service(address="http://10.0.0.5:8000/health")
    change = nodes.displaced(before, now=NOW)
    assert change.after == replace(before, version=before.version + 1, address="")
    with pytest.raises(IllegalTransition, match="as an app"):
        nodes.displaced(node(NodeState.RUNNING), now=NOW)
