from collections.abc import Sequence
from typing import Any

import pytest

from muster.domain.decisions import CallProvider, Finish, Wait
from muster.domain.launch import Launch, LaunchState
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Status, Verdict
from muster.domain.reasons import Reason
from muster.domain.refill_decisions import Discard, Launching, PoolIn, Situation, decide
from muster.domain.template import UsageClass
from tests.domain.builders import NOW, REFILL, REVISION, SMALLEST, launch, node, operation, template

ON_DEMAND, SPOT = UsageClass.ON_DEMAND, UsageClass.SPOT
BOOTING = node(n=1, assignment_id=None)
UP = node(n=2, assignment_id=None, booted_at=NOW - 1)
PLANNED = launch()
CALLING = launch(LaunchState.CALLING)
SETTLED = launch(LaunchState.SETTLED)
FAILED = Verdict(reason=Reason.QUOTA, message="full")
ENDINGS: list[tuple[dict[str, Any], Verdict]] = [
    ({"verdict": FAILED}, FAILED),
    ({"cancel_requested_at": 0.0}, Verdict(reason=Reason.CANCELLED, message="the refill was cancelled")),
    (
        {"deadline_at": NOW},
        Verdict(reason=Reason.DEADLINE_EXCEEDED, message="some nodes did not boot in time"),
    ),
]
RETIRED = Verdict(reason=Reason.RETIRED, message="the template changed while the refill ran")


def situation(
    nodes: Sequence[Node] = (),
    launches: Sequence[Launch] = (),
    *,
    current: int = REVISION,
    usage: tuple[UsageClass, ...] = (UsageClass.ON_DEMAND,),
    **fields: Any,
) -> Situation:
    return Situation(
        operation=operation(request=REFILL, **fields),
        request=REFILL,
        template=template(revision=current, usage=usage),
        nodes=nodes,
        launches=launches,
        now=NOW,
    )


def test_a_refill_launches_once_all_that_it_was_asked_for() -> None:
    assert decide(situation()) == Launching(count=REFILL.count, usage_class=ON_DEMAND)


@pytest.mark.parametrize("reason", [Reason.CAPACITY, Reason.QUOTA])
@pytest.mark.parametrize("state", [LaunchState.SETTLED, LaunchState.CALLING])
def test_a_refill_that_one_usage_class_gave_nothing_asks_the_next(reason: Reason, state: LaunchState) -> None:
    spot = launch(state, adopted=0, reason=reason, usage_class=SPOT, message="no")
    after = decide(situation([], [spot], usage=(SPOT, ON_DEMAND)))
    assert after == Launching(count=REFILL.count, usage_class=ON_DEMAND)
    last = launch(LaunchState.SETTLED, 2, adopted=0, reason=reason, usage_class=ON_DEMAND, message="nor here")
    verdict = Verdict(reason=reason, message="nor here")
    after = decide(situation([], [spot, last], usage=(SPOT, ON_DEMAND)))
    assert after == Finish(status=Status.FAILED, verdict=verdict)


def test_a_refill_that_was_given_anything_or_refused_for_good_asks_no_further() -> None:
    part = launch(LaunchState.SETTLED, adopted=1, reason=Reason.PARTIAL_LAUNCH, usage_class=SPOT)
    assert decide(situation([], [part], usage=(SPOT, ON_DEMAND))) == Finish(status=Status.SUCCEEDED)
    wrong = launch(LaunchState.SETTLED, adopted=0, reason=Reason.PROVIDER_REFUSED, usage_class=SPOT)
    assert isinstance(decide(situation([], [wrong], usage=(SPOT, ON_DEMAND))), Finish)


@pytest.mark.parametrize("pending", [PLANNED, CALLING])
def test_an_open_launch_is_called(pending: Launch) -> None:
    assert decide(situation([], [SETTLED, pending])) == CallProvider(launch=pending)
    assert decide(situation([BOOTING], [pending, launch(ordinal=2)])) == CallProvider(launch=pending)


def test_a_launch_whose_repeat_was_refused_is_not_called_again() -> None:
    open_still = launch(LaunchState.CALLING, reason=Reason.CAPACITY, message="none left")
    verdict = Verdict(reason=Reason.CAPACITY, message="none left")
    assert decide(situation([], [open_still])) == Finish(status=Status.FAILED, verdict=verdict)


def test_a_node_that_is_up_is_pooled_before_anything_else() -> None:
    others = [BOOTING, node(NodeState.FAILED, 5, booted_at=NOW)]
    for launches in ([], [CALLING], [SETTLED]):
        assert decide(situation([UP, *others], launches)) == PoolIn(nodes=(UP,))


def test_a_node_that_boots_is_waited_for() -> None:
    assert decide(situation([BOOTING], [SETTLED])) == Wait()


def test_a_refill_that_made_anything_succeeded() -> None:
    assert decide(situation([], [SETTLED])) == Finish(status=Status.SUCCEEDED)
    one_lost = [node(NodeState.FAILED)]
    assert decide(situation(one_lost, [SETTLED])) == Finish(status=Status.SUCCEEDED)


def test_a_partial_launch_is_taken_as_it_is() -> None:
    partial = launch(LaunchState.SETTLED, adopted=1, reason=Reason.PARTIAL_LAUNCH)
    assert decide(situation([], [partial])) == Finish(status=Status.SUCCEEDED)


def test_a_refill_whose_nodes_were_all_lost_failed_for_their_reason() -> None:
    lost = [node(NodeState.FAILED, 1, reason=Reason.BOOT_STALLED), node(NodeState.TERMINATED, 2)]
    verdict = Verdict(reason=Reason.BOOT_STALLED, message="no warm node was made")
    assert decide(situation(lost, [SETTLED])) == Finish(status=Status.FAILED, verdict=verdict)


def test_a_refill_whose_launch_was_refused_failed_for_that_reason() -> None:
    refused = launch(LaunchState.SETTLED, adopted=0, reason=Reason.CAPACITY, message="none left")
    verdict = Verdict(reason=Reason.CAPACITY, message="none left")
    assert decide(situation([], [refused])) == Finish(status=Status.FAILED, verdict=verdict)


def test_a_refill_that_made_nothing_without_a_reason_is_a_bug_that_says_so() -> None:
    empty = launch(LaunchState.SETTLED, adopted=0)
    decided = decide(situation([], [empty]))
    assert isinstance(decided, Finish) and decided.verdict is not None
    assert decided.verdict.reason is Reason.INTERNAL


@pytest.mark.parametrize(("fields", "verdict"), ENDINGS)
def test_a_refill_that_is_stopped_keeps_what_is_up_and_throws_the_rest_away(
    fields: dict[str, Any], verdict: Verdict
) -> None:
    launches = [SETTLED, CALLING, PLANNED]
    assert decide(situation([BOOTING, UP], launches, **fields)) == PoolIn(nodes=(UP,))
    discard = Discard(nodes=(BOOTING,), launches=(PLANNED,), reason=verdict.reason)
    assert decide(situation([BOOTING, node(NodeState.FAILED)], launches, **fields)) == discard
    status = Status.CANCELLED if verdict.reason is Reason.CANCELLED else Status.FAILED
    finish = Finish(status=status, verdict=verdict)
    assert decide(situation([node(NodeState.FAILED)], [SETTLED, CALLING], **fields)) == finish
    assert decide(situation([], [], **fields)) == finish
    only_planned = decide(situation([], [PLANNED], **fields))
    assert only_planned == Discard(nodes=(), launches=(PLANNED,), reason=verdict.reason)


def test_a_refill_of_an_old_revision_pools_nothing_more() -> None:
    discard = Discard(nodes=(BOOTING, UP), launches=(PLANNED,), reason=Reason.RETIRED)
    assert decide(situation([BOOTING, UP], [SETTLED, PLANNED], current=REVISION + 1)) == discard
    finish = Finish(status=Status.FAILED, verdict=RETIRED)
    assert decide(situation([], [SETTLED], current=REVISION + 1)) == finish


def test_a_refill_of_the_current_revision_goes_on() -> None:
    assert decide(situation([BOOTING], [SETTLED], current=REVISION)) == Wait()


@pytest.mark.parametrize(("left", "stops"), [(SMALLEST, False), (0.0, True), (-SMALLEST, True)])
def test_a_refill_stops_at_its_deadline(left: float, stops: bool) -> None:
    decided = decide(situation([BOOTING], [SETTLED], deadline_at=NOW + left))
    assert isinstance(decided, Discard if stops else Wait)


def test_the_first_cause_of_a_stop_is_its_verdict() -> None:
    everything = situation(
        [], [], current=REVISION + 1, verdict=FAILED, cancel_requested_at=0.0, deadline_at=0
    )
    assert decide(everything) == Finish(status=Status.FAILED, verdict=FAILED)
