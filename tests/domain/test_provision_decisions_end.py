from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from muster.domain.deadlines import EXTENSION, attach_timeout
from muster.domain.decisions import ExtendDeadline, Finish, Wait
from muster.domain.launch import Launch, LaunchState
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Status, Verdict
from muster.domain.provision_decisions import (
    CANCELLED,
    Acquire,
    Commit,
    CondemnSilent,
    GiveUp,
    HandOver,
    Queue,
    RollBack,
    decide,
    waiting_for,
)
from muster.domain.reasons import Reason
from tests.domain.builders import (
    LIMITS,
    NOW,
    SMALLEST,
    attached,
    claimed,
    launch,
    node,
    operation,
    provision,
    situation,
)

FAILED = Verdict(reason=Reason.QUOTA, message="full")
SETTLED = launch(LaunchState.SETTLED)
PLANNED = launch()
CALLING = launch(LaunchState.CALLING)
THREE = [attached(1), attached(2), attached(3, NodeState.CLAIMED)]


# --- the queue ------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [-SMALLEST, 0.0, SMALLEST])
def test_a_queued_provision_waits_until_its_patience_ends(late: float) -> None:
    queued = operation(status=Status.QUEUED, queued_since=NOW - 5, created_at=NOW - 90 - late)
    decided = decide(situation(op=queued, queue_timeout=90.0))
    if late < 0:
        assert decided == Queue(until=queued.created_at + 90.0)
    else:
        message = "no room within 90 s in the queue"
        assert decided == GiveUp(verdict=Verdict(reason=Reason.CAP_REACHED, message=message))


def test_only_what_is_queued_and_has_a_place_waits_in_the_queue() -> None:
    for fields in ({"status": Status.QUEUED}, {"status": Status.RUNNING, "queued_since": 0.0}):
        assert isinstance(decide(situation(op=operation(**fields), queue_timeout=900.0)), Acquire)
    placed = operation(status=Status.QUEUED, queued_since=0.0)
    assert isinstance(decide(situation(op=placed, queue_timeout=900.0)), Queue)


@pytest.mark.parametrize("late", [-SMALLEST, 0.0, SMALLEST])
@pytest.mark.parametrize(
    ("nodes", "launches"),
    [
        ([], []),
        ([claimed(1)], []),
        ([claimed(1)], [launch(LaunchState.ABANDONED)]),
    ],
    ids=["nothing", "too few", "too few and a launch given up"],
)
def test_one_that_tries_again_keeps_its_place_no_longer_than_its_patience(
    nodes: list[Node], launches: list[Launch], late: float
) -> None:
    trying = operation(status=Status.RUNNING, queued_since=NOW - 5, created_at=NOW - 90 - late)
    decided = decide(situation(nodes, launches, op=trying, queue_timeout=90.0))
    message = "no room within 90 s in the queue"
    refused = GiveUp(verdict=Verdict(reason=Reason.CAP_REACHED, message=message))
    assert (decided == refused) == (late >= 0)


@pytest.mark.parametrize(
    ("nodes", "launches"),
    [
        ([claimed(1), claimed(2), claimed(3)], []),
        (THREE, [SETTLED]),
        ([claimed(1)], [PLANNED]),
        ([claimed(1)], [CALLING]),
        ([], [CALLING]),
        ([], [launch(LaunchState.SETTLED, reason=Reason.THROTTLED, closed_at=NOW - 20)]),
    ],
    ids=[
        "all held",
        "all attached",
        "the rest planned",
        "the rest called for",
        "all called for",
        "throttled",
    ],
)
def test_one_that_holds_or_has_called_for_everything_goes_on_past_its_patience(
    nodes: list[Node], launches: list[Launch]
) -> None:
    served = operation(status=Status.RUNNING, queued_since=NOW - 5, created_at=NOW - 1000)
    assert not isinstance(decide(situation(nodes, launches, op=served, queue_timeout=90.0)), GiveUp | Queue)


@pytest.mark.parametrize("nodes", [[], THREE], ids=["nothing", "all"])
def test_one_that_still_stands_in_line_is_refused_whatever_it_holds(nodes: list[Node]) -> None:
    queued = operation(status=Status.QUEUED, queued_since=NOW - 5, created_at=NOW - 90)
    assert isinstance(decide(situation(nodes, op=queued, queue_timeout=90.0)), GiveUp)


# --- the end --------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [-SMALLEST, 0.0, SMALLEST])
def test_the_deadline_ends_even_what_could_commit(late: float) -> None:
    decided = decide(situation(THREE, [SETTLED], op=operation(deadline_at=NOW - late)))
    if late < 0:
        assert isinstance(decided, Commit)
    else:
        waiting = "waiting for fresh heartbeats of all nodes"
        message = f"not ready in time (default deadline): {waiting}"
        verdict = Verdict(reason=Reason.DEADLINE_EXCEEDED, message=message)
        assert decided == GiveUp(verdict=verdict)


@pytest.mark.parametrize(
    ("fields", "finish"),
    [
        ({"cancel_requested_at": 0.0}, Finish(status=Status.CANCELLED, verdict=CANCELLED)),
        ({"verdict": FAILED}, Finish(status=Status.FAILED, verdict=FAILED)),
        ({"verdict": FAILED, "cancel_requested_at": 0.0}, Finish(status=Status.FAILED, verdict=FAILED)),
    ],
)
def test_a_cancelled_or_failing_provision_rolls_back_and_finishes(
    fields: dict[str, Any], finish: Finish
) -> None:
    op = operation(deadline_at=0.0, **fields)
    others = [node(NodeState.RELEASING, 8), node(NodeState.FAILED, 9)]
    all_of_it = decide(situation([*THREE, *others], [SETTLED, CALLING, PLANNED], op=op))
    assert all_of_it == RollBack(nodes=tuple(THREE), launches=(PLANNED,))
    assert decide(situation([], [PLANNED], op=op)) == RollBack(nodes=(), launches=(PLANNED,))
    assert decide(situation([claimed()], op=op)) == RollBack(nodes=(claimed(),), launches=())
    assert decide(situation(others, [SETTLED, CALLING], op=op)) == finish


def test_a_committed_provision_only_rolls_forward() -> None:
    done = operation(committed_at=0.0, deadline_at=0.0, verdict=FAILED, cancel_requested_at=0.0)
    some = [THREE[0], node(NodeState.RUNNING, 2), node(NodeState.TERMINATING, 3)]
    assert decide(situation(some, op=done)) == HandOver(nodes=(THREE[0],))
    assert decide(situation(some[1:], [CALLING], op=done)) == Finish(status=Status.SUCCEEDED)


DEAD = LIMITS.stale_after + LIMITS.dead_after


def test_a_boot_that_was_given_time_gives_it_to_the_provision() -> None:
    held = [node(n=n, deadline_at=NOW + 600, deadline_source=EXTENSION) for n in (1, 2, 3)]
    at = situation(held, [SETTLED])
    assert decide(at) == ExtendDeadline(until=NOW + 600 + attach_timeout(at.template.spec))


def test_a_loss_is_told_in_the_node_s_own_words() -> None:
    lost = node(NodeState.TERMINATING, reason=Reason.BOOT_STALLED, detail="301 s without a sign of advance")
    action = decide(situation([lost], [SETTLED]))
    assert isinstance(action, GiveUp)
    assert action.verdict.node_id == lost.id
    assert action.verdict.message == (
        f"node {lost.id} was lost before hand-over: 301 s without a sign of advance"
    )


@pytest.mark.parametrize("side", [-SMALLEST, 0.0, SMALLEST])
def test_silence_counts_only_while_a_replica_listened(side: float) -> None:
    held = [attached(n, attached_at=NOW - 10 * DEAD) for n in (1, 2, 3)]
    quiet = situation(held, [SETTLED], seen={each.id: NOW - 10 * DEAD for each in held})
    at = replace(quiet, watched_since=NOW - DEAD - side)
    assert decide(at) == (CondemnSilent(nodes=tuple(held)) if side > 0 else Wait())


def test_who_was_never_heard_is_neither_fresh_nor_dead_before_its_time() -> None:
    held = [attached(n, attached_at=NOW - DEAD) for n in (1, 2, 3)]
    assert decide(situation(held, [SETTLED], seen={"another": NOW})) == Wait()
    later = [replace(each, attached_at=NOW - DEAD - SMALLEST) for each in held]
    assert decide(situation(later, [SETTLED], seen={"another": NOW})) == CondemnSilent(nodes=tuple(later))


# --- in words -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("step", "doing"), [("apt install", "apt install"), ("", "boot script")])
def test_the_latest_of_the_extended_boots_is_named(step: str, doing: str) -> None:
    held = [
        node(n=1, deadline_at=NOW + 60, deadline_source=EXTENSION, phase="joined"),
        node(n=2, deadline_at=NOW + 120, deadline_source=EXTENSION, phase="boot_script", step=step),
        node(n=3, deadline_at=NOW + 999, booted_at=NOW, deadline_source=EXTENSION),
    ]
    until = datetime.fromtimestamp(NOW + 120, UTC)
    assert waiting_for(situation(held, [SETTLED])) == (
        "waiting for 2 nodes to boot and 1 node to attach"
        f"; node-2 is still at {doing}, deadline extended to {until:%H:%M:%S} UTC"
    )


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)], ids=["first", "last"])
def test_of_boots_that_were_given_the_same_time_the_last_by_id_is_named(order: tuple[int, ...]) -> None:
    held = [
        node(n=1, deadline_at=NOW + 60, deadline_source=EXTENSION, phase="joined"),
        node(n=2, deadline_at=NOW + 60, deadline_source=EXTENSION, phase="joined"),
        node(n=3, deadline_at=NOW + 999, deadline_source="template", phase="boot_script"),
    ]
    until = datetime.fromtimestamp(NOW + 60, UTC)
    assert waiting_for(situation([held[n] for n in order], [SETTLED])) == (
        f"waiting for 3 nodes to boot; node-2 is still at joined, deadline extended to {until:%H:%M:%S} UTC"
    )


def test_a_boot_that_was_given_no_more_time_is_not_named() -> None:
    held = [node(n=n, deadline_at=NOW + 60, deadline_source="template", phase="joined") for n in (1, 2, 3)]
    assert waiting_for(situation(held, [SETTLED])) == "waiting for 3 nodes to boot"


def test_what_is_paused_says_so_and_what_it_waits_for() -> None:
    held = [attached(n) for n in (1, 2, 3)]
    at = replace(situation(held, [SETTLED]), paused=True)
    assert waiting_for(at) == "paused by an operator: waiting for fresh heartbeats of all nodes"


def test_a_provision_in_the_queue_says_how_many_are_ahead() -> None:
    queued = operation(request=provision(), status=Status.QUEUED, queued_since=NOW - 5)
    at = situation(op=queued, ahead=4)
    assert waiting_for(at) == "waiting for room under the caps, 4 ahead in the queue"
    tried = situation([node()], op=replace(queued, status=Status.RUNNING))
    assert waiting_for(tried) == "waiting for 2 of 3 nodes"
