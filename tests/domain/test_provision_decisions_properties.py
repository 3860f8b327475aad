"""Whatever a provision holds, its decision is safe: it never raises, commits early or acquires too much."""

from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.domain.decisions import CallProvider, ExtendDeadline, Finish, Wait
from muster.domain.ids import AssignmentId, LaunchId, NodeId
from muster.domain.launch import Launch, LaunchState
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Status, Verdict
from muster.domain.progress_view import of_provision, why_provision
from muster.domain.provision_decisions import (
    HELD,
    Acquire,
    Action,
    Commit,
    CondemnSilent,
    GiveUp,
    HandOver,
    MakeWay,
    Queue,
    RollBack,
    Situation,
    decide,
    waiting_for,
)
from muster.domain.reasons import Reason
from muster.domain.template import UsageClass
from tests.domain.builders import LIMITS, NOW, attached, claimed, launch, modest, node, operation, provision
from tests.domain.builders import template as stored

LONG_AGO = NOW - 900
POOLED = LaunchId("op-refill.1")
KINDS = [
    *(attached(attached_at=LONG_AGO, launch_id=made_by) for made_by in (LaunchId("op-1.1"), POOLED)),
    *(attached(attached_at=LONG_AGO, state=NodeState.CLAIMED, launch_id=POOLED) for _ in range(3)),
    attached(attached_at=NOW),
    node(),
    claimed(),
    *(node(state, launch_id=made_by) for state in NodeState for made_by in (LaunchId("op-1.1"), POOLED)),
]
"""Attached nodes come first and often, so that commits are among what is drawn."""
AGES = [0.0, LIMITS.stale_after, LIMITS.stale_after + 1, LIMITS.stale_after + LIMITS.dead_after + 1, None]
USAGES = [tuple(UsageClass), tuple(reversed(UsageClass)), *((each,) for each in UsageClass)]
MISHAPS: list[dict[str, Any]] = [
    {"committed_at": NOW - 1},
    {"cancel_requested_at": NOW - 1},
    {"verdict": Verdict(reason=Reason.QUOTA, message="full")},
    {"deadline_at": NOW},
    {"status": Status.QUEUED, "queued_since": NOW - 20},
]


@st.composite
def launches(draw: st.DrawFn) -> list[Launch]:
    states = draw(st.lists(st.sampled_from([LaunchState.SETTLED, *LaunchState]), max_size=2))
    reasons = st.sampled_from([None, None, Reason.CAPACITY, Reason.PARTIAL_LAUNCH, Reason.QUOTA])
    made = [
        launch(state, ordinal, usage_class=draw(st.sampled_from(UsageClass)))
        for ordinal, state in enumerate(states, 1)
    ]
    called = [each for each in made if each.state is not LaunchState.PLANNED]
    return [replace(each, reason=draw(reasons)) if each in called else each for each in made]


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    drawn = draw(st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(AGES)), max_size=5))
    nodes = [
        replace(kind, id=NodeId(f"node-{n}"), assignment_id=_assignment(kind, n))
        for n, (kind, _) in enumerate(drawn)
    ]
    seen = {each.id: NOW - age for each, (_, age) in zip(nodes, drawn, strict=True) if age is not None}
    # No provision ever holds more than it asked for: it claims and launches only what is missing.
    held = sum(each.state in HELD for each in nodes)
    asked = provision(
        count=max(1, held + draw(st.sampled_from([0, 0, 1, 3]))),
        queue_timeout=draw(st.sampled_from([0.0, 50.0, 500.0])),
        usage=draw(st.none() | st.sampled_from(USAGES)),
    )
    mishaps = draw(st.sampled_from([{}, {}, *MISHAPS]))
    return Situation(
        operation=operation(request=asked, **mishaps),
        request=asked,
        template=stored(usage=draw(st.sampled_from(USAGES)), replacements=draw(st.sampled_from([5, 0, 1]))),
        nodes=nodes,
        launches=draw(launches()),
        seen=seen,
        ahead=1,
        now=NOW,
        limits=LIMITS,
    )


def _assignment(kind: Node, n: int) -> AssignmentId | None:
    return AssignmentId(f"as-{n}") if kind.assignment_id is not None else None


def _fresh(at: Situation, each: Node) -> bool:
    return NOW - at.seen.get(each.id, 0.0) <= LIMITS.stale_after


def _is_safe(at: Situation, decided: Action) -> None:
    op = at.operation
    held = [each for each in at.nodes if each.state in (NodeState.CREATED, NodeState.CLAIMED)]
    match decided:
        case Commit(members=members):
            assert len(held) == at.request.count
            assert all(each.attached_at is not None and _fresh(at, each) for each in held)
            assert [(m.node_id, m.assignment_id) for m in members] == [(n.id, n.assignment_id) for n in held]
            assert op.verdict is None and op.cancel_requested_at is None
            assert not any(each.pending for each in at.launches)
        case Acquire(count=count, usage_class=usage):
            assert count == at.request.count - len(held) > 0
            assert usage in (at.request.usage or at.template.spec.usage)
            assert not any(each.pending for each in at.launches)
        case CondemnSilent(nodes=nodes):
            assert nodes and all(each in held and each.attached and not _fresh(at, each) for each in nodes)
        case HandOver(nodes=nodes) | RollBack(nodes=nodes):
            assert list(nodes) == held
        case Finish():
            assert not held
        case CallProvider(launch=called):
            assert called.open and called.reason is None
        case Queue(until=until):
            assert until > NOW and op.status is Status.QUEUED
        case GiveUp(verdict=verdict):
            assert verdict.message
        case MakeWay(launch=crowded, verdict=verdict):
            assert not crowded.open and crowded.reason in at.makes_way and verdict.message
        case ExtendDeadline(until=until):
            assert until > op.deadline_at
        case Wait():
            assert len(held) == at.request.count
            assert not all(each.attached and _fresh(at, each) for each in held)
    _goes_one_way(at, decided)


def _goes_one_way(at: Situation, decided: Action) -> None:
    op = at.operation
    if op.committed:
        assert isinstance(decided, HandOver) or decided == Finish(status=Status.SUCCEEDED)
    elif op.verdict is not None or op.cancel_requested_at is not None:
        assert isinstance(decided, RollBack | Finish)
    else:
        assert not isinstance(decided, HandOver | RollBack | Finish)
        assert op.deadline_at > NOW or isinstance(decided, GiveUp)


@settings(modest, max_examples=300)
@given(situations())
def test_every_decision_is_safe(at: Situation) -> None:
    _is_safe(at, decide(at))


@modest
@given(situations())
def test_every_situation_can_be_shown(at: Situation) -> None:
    assert waiting_for(at)
    assert 0 <= of_provision(at).percent <= 100
    assert why_provision(at).waits_for


def test_every_kind_of_decision_is_among_those_that_are_drawn() -> None:
    seen: Counter[type] = Counter()

    @settings(modest, max_examples=200, derandomize=True)
    @given(situations())
    def count(at: Situation) -> None:
        seen[type(decide(at))] += 1

    count()
    assert {Acquire, CallProvider, Commit, GiveUp, HandOver, RollBack} <= set(seen), seen
