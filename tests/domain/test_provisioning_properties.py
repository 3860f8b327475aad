"""Whatever a provision holds, its decision is safe: it never raises, commits early or acquires too much."""

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from muster.domain.ids import LaunchId, NodeId
from muster.domain.launch import OPEN, LaunchState
from muster.domain.lifecycle import NodeState
from muster.domain.operation import Status, Verdict
from muster.domain.provisioning import (
    HELD,
    Acquire,
    Bury,
    Call,
    Commit,
    Finish,
    GiveUp,
    HandOver,
    RollBack,
    Situation,
    decide,
    waiting_for,
)
from muster.domain.reasons import Reason
from muster.domain.showing import of_provision, why_provision
from muster.domain.template import UsageClass
from tests.domain.builders import LIMITS, NOW, attached, claimed, launch, modest, node, operation, provision
from tests.domain.builders import template as stored

ages = st.sampled_from([0.0, LIMITS.stale_after, LIMITS.stale_after + 1, 500.0])
reasons = st.none() | st.sampled_from(Reason)
usages = st.sampled_from([tuple(UsageClass), tuple(reversed(UsageClass)), *((each,) for each in UsageClass)])


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    count = draw(st.integers(1, 4))
    asked = provision(
        count=count, queue_timeout=draw(st.sampled_from([0.0, 50.0, 500.0])), usage=draw(st.none() | usages)
    )
    nodes = []
    for n in range(draw(st.integers(0, 6))):
        made_by = draw(st.sampled_from(["op-1.1", "op-1.2", "op-refill.1"]))
        made = draw(st.sampled_from([node(n=n), claimed(n), attached(n), attached(n, NodeState.CLAIMED)]))
        if draw(st.booleans()):
            made = node(draw(st.sampled_from(NodeState)), n)
        age = draw(ages)
        nodes.append(
            replace(
                made,
                launch_id=LaunchId(made_by),
                attached_at=NOW - 500 if made.attached else None,
                entered_at=NOW - age,
            )
        )
    seen = {each.id: NOW - draw(ages) for each in nodes if draw(st.booleans())}
    launches = [
        launch(state, ordinal, usage_class=draw(st.sampled_from(UsageClass)))
        for ordinal, state in enumerate(draw(st.lists(st.sampled_from(LaunchState), max_size=3)), 1)
    ]
    launches = [each if each.open else replace(each, reason=draw(reasons)) for each in launches]
    op = operation(
        request=asked,
        status=draw(st.sampled_from([Status.QUEUED, Status.RUNNING])),
        queued_since=draw(st.none() | st.just(NOW - 20)),
        committed_at=draw(st.sampled_from([None, None, None, NOW - 1])),
        cancel_requested_at=draw(st.sampled_from([None, None, None, NOW - 1])),
        verdict=draw(st.sampled_from([None, None, Verdict(reason=Reason.QUOTA, message="full")])),
        deadline_at=NOW + draw(st.sampled_from([-1.0, 0.0, 1.0, 900.0])),
    )
    at = Situation(
        operation=op,
        request=asked,
        template=stored(usage=draw(usages), replacements=draw(st.integers(0, 3))),
        nodes=nodes,
        launches=launches,
        seen={NodeId(key): at for key, at in seen.items()},
        ahead=draw(st.integers(0, 2)),
        now=NOW,
        limits=LIMITS,
    )
    # No provision ever holds more than it asked for: it claims and launches only what is missing.
    assume(len(at.held) <= count)
    return at


@modest
@given(situations())
def test_a_decision_never_raises_and_can_always_be_shown(at: Situation) -> None:
    decide(at)
    assert waiting_for(at)
    assert 0 <= of_provision(at).percent <= 100
    assert why_provision(at).waits_for


@modest
@given(situations())
def test_a_commit_has_exactly_as_many_attached_and_fresh_nodes_as_were_asked_for(at: Situation) -> None:
    held = [each for each in at.nodes if each.state in (NodeState.CREATED, NodeState.CLAIMED)]
    ready = [each for each in held if each.attached_at is not None and each.assignment_id is not None]
    fresh = [
        each
        for each in ready
        if NOW - max(at.seen.get(each.id, 0.0), each.attached_at or 0.0) <= LIMITS.stale_after
    ]
    decided = decide(at)
    if isinstance(decided, Commit):
        assert len(held) == len(fresh) == at.request.count
        assert [member.node_id for member in decided.members] == [each.id for each in held]
        assert [member.assignment_id for member in decided.members] == [each.assignment_id for each in held]
        assert at.now < at.operation.deadline_at
        assert not any(each.open for each in at.launches)
        op = at.operation
        assert op.verdict is None and op.cancel_requested_at is None and not op.committed


@modest
@given(situations())
def test_no_more_is_acquired_than_is_missing(at: Situation) -> None:
    decided = decide(at)
    if isinstance(decided, Acquire):
        assert decided.count == at.request.count - len(at.held) > 0
        assert not any(each.state in OPEN for each in at.launches)
        assert decided.usage_class in (at.request.usage or at.template.spec.usage)


@modest
@given(situations())
def test_what_is_lost_or_handed_over_is_never_touched(at: Situation) -> None:
    decided = decide(at)
    touched = decided.nodes if isinstance(decided, Bury | HandOver | RollBack) else ()
    assert all(each.state in HELD for each in touched)
    if isinstance(decided, Bury):
        assert all(each.attached for each in touched)


@modest
@given(situations())
def test_after_the_commit_there_is_no_way_back(at: Situation) -> None:
    decided = decide(at)
    if at.operation.committed:
        assert isinstance(decided, HandOver | Finish)
        assert not isinstance(decided, Finish) or decided.status is Status.SUCCEEDED
    else:
        assert not isinstance(decided, HandOver)
        assert not isinstance(decided, Finish) or decided.status is not Status.SUCCEEDED


@modest
@given(situations())
def test_past_its_deadline_an_uncommitted_provision_only_ends(at: Situation) -> None:
    if not at.operation.committed and at.now >= at.operation.deadline_at:
        assert isinstance(decide(at), GiveUp | RollBack | Finish)


@modest
@given(situations())
def test_a_provision_finishes_only_with_empty_hands(at: Situation) -> None:
    decided = decide(at)
    if isinstance(decided, Finish):
        assert not at.held
    if isinstance(decided, Call):
        assert decided.launch.open
