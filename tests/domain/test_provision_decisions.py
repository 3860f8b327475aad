from dataclasses import replace
from typing import Any

import pytest

from muster.domain.decisions import CallProvider, Wait
from muster.domain.ids import AssignmentId, LaunchId, NodeId
from muster.domain.launch import THROTTLED_MOST, Launch, LaunchState, again_at
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Member, Status, Verdict
from muster.domain.provision_decisions import (
    WAYS_MOST,
    Acquire,
    Commit,
    CondemnSilent,
    GiveUp,
    MakeWay,
    Queue,
    decide,
    demand,
    next_usage,
    waiting_for,
)
from muster.domain.reasons import ADVICE, Reason
from muster.domain.template import Reuse, UsageClass
from muster.integrations.process.tables import ADVICE as LOCAL_ADVICE
from tests.domain.builders import (
    LIMITS,
    NOW,
    REVISION,
    SMALLEST,
    attached,
    claimed,
    launch,
    node,
    provision,
    situation,
    template,
)

SPOT, ON_DEMAND = UsageClass.SPOT, UsageClass.ON_DEMAND
SPOT_FIRST = {"usage": (SPOT, ON_DEMAND)}
SETTLED = launch(LaunchState.SETTLED)
PLANNED = launch()
CALLING = launch(LaunchState.CALLING)
LOST = [NodeState.FAILED, NodeState.TERMINATING, NodeState.TERMINATED]
PATIENCE = LIMITS.stale_after + LIMITS.dead_after


def refused(reason: Reason, usage: UsageClass = ON_DEMAND, ordinal: int = 1, message: str = "no") -> Launch:
    return launch(LaunchState.SETTLED, ordinal, reason=reason, usage_class=usage, adopted=0, message=message)


def made_of(count: int, ordinal: int = 1) -> Launch:
    return launch(LaunchState.SETTLED, ordinal, count=count, adopted=count)


THREE = [attached(1), attached(2), attached(3, NodeState.CLAIMED)]


# --- gathering ------------------------------------------------------------------------------------


def test_a_provision_that_holds_nothing_acquires_all() -> None:
    assert decide(situation()) == Acquire(count=3, usage_class=ON_DEMAND)
    assert decide(situation(spec=SPOT_FIRST)) == Acquire(count=3, usage_class=SPOT)
    assert decide(situation(usage=(SPOT,))) == Acquire(count=3, usage_class=SPOT)


def test_a_provision_that_holds_some_acquires_the_rest() -> None:
    assert decide(situation([claimed(1)])) == Acquire(count=2, usage_class=ON_DEMAND)
    assert decide(situation([claimed(1), attached(2)])) == Acquire(count=1, usage_class=ON_DEMAND)


def test_what_is_given_back_or_handed_over_is_not_held() -> None:
    others = [node(NodeState.RELEASING, 1), node(NodeState.RUNNING, 2), node(NodeState.IDLE, 3)]
    assert decide(situation(others)) == Acquire(count=3, usage_class=ON_DEMAND)


@pytest.mark.parametrize("pending", [PLANNED, CALLING])
def test_an_open_launch_is_called_whatever_is_held(pending: Launch) -> None:
    for held in ([], [claimed(1)], THREE):
        made = [made_of(sum(each.state is NodeState.CREATED for each in held)), pending]
        assert decide(situation(held, made)) == CallProvider(launch=pending)
    assert decide(situation([], [pending, launch(ordinal=2)])) == CallProvider(launch=pending)


@pytest.mark.parametrize(
    "straggler", [node(n=3), node(n=3, joined_at=NOW, booted_at=NOW), claimed(3)], ids=["boot", "up", "claim"]
)
def test_a_node_that_is_not_attached_is_waited_for(straggler: Node) -> None:
    assert decide(situation([*THREE[:2], straggler], [SETTLED])) == Wait()


def test_all_attached_and_fresh_nodes_are_committed_with_their_assignments() -> None:
    assert decide(situation(THREE, [SETTLED])) == Commit(
        members=tuple(
            Member(node_id=NodeId(f"node-{n}"), assignment_id=AssignmentId(f"as-{n}")) for n in (1, 2, 3)
        )
    )


@pytest.mark.parametrize(
    ("silence", "action"),
    [
        (LIMITS.stale_after - SMALLEST, Commit),
        (LIMITS.stale_after, Commit),
        (LIMITS.stale_after + SMALLEST, Wait),
        (PATIENCE - SMALLEST, Wait),
        (PATIENCE, Wait),
        (PATIENCE + SMALLEST, CondemnSilent),
    ],
)
def test_a_silent_node_is_waited_for_and_then_buried(silence: float, action: type) -> None:
    silent = attached(3, attached_at=NOW - 900)
    seen = {"node-1": NOW, "node-2": NOW, "node-3": NOW - silence}
    decided = decide(situation([*THREE[:2], silent], [SETTLED], seen=seen))
    assert type(decided) is action
    if isinstance(decided, CondemnSilent):
        assert decided.nodes == (silent,)


def test_attaching_spares_a_node_that_has_not_beaten_yet_and_does_not_commit_it() -> None:
    fresh = [attached(n, attached_at=NOW) for n in (1, 2, 3)]
    assert decide(situation(fresh, [SETTLED], seen={"node-9": NOW})) == Wait()


def test_only_attached_nodes_are_buried_for_their_silence() -> None:
    quiet = [*THREE[:2], node(n=3)]
    assert decide(situation(quiet, [SETTLED], seen={"node-1": NOW, "node-2": NOW})) == Wait()


# --- losses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", LOST)
def test_a_lost_node_that_was_made_for_it_fails_the_provision(state: NodeState) -> None:
    lost = node(state, 1, reason=Reason.BOOT_STALLED)
    message = f"node node-1 was lost before hand-over: {ADVICE[Reason.BOOT_STALLED]}"
    verdict = Verdict(reason=Reason.BOOT_STALLED, message=message, node_id=lost.id)
    assert decide(situation([lost, attached(2), attached(3)], [made_of(3)])) == GiveUp(verdict=verdict)


def test_a_node_lost_without_a_reason_is_a_bug_that_says_so() -> None:
    decided = decide(situation([node(NodeState.TERMINATED, reason=None)], [SETTLED]))
    assert isinstance(decided, GiveUp) and decided.verdict.reason is Reason.INTERNAL


def test_lost_nodes_are_replaced_as_often_as_the_template_says() -> None:
    lost = [node(NodeState.TERMINATED, 7), node(NodeState.FAILED, 8, reason=Reason.BOOT_STALLED)]
    for replacements in (2, 3):
        decided = decide(situation([*lost, attached(1)], [made_of(3)], spec={"replacements": replacements}))
        assert decided == Acquire(count=2, usage_class=ON_DEMAND)
    beyond = decide(situation([*lost, attached(1)], [made_of(3)], spec={"replacements": 1}))
    assert isinstance(beyond, GiveUp) and beyond.verdict.reason is Reason.BOOT_TIMEOUT


RESCUED: dict[str, list[Node]] = {
    "on its way to the pool": [node(NodeState.RELEASING, 7, reason=Reason.BOOT_STALLED)],
    "the pool's, or others'": [],
    "its own again, by a claim": [attached(7, NodeState.CLAIMED)],
}


@pytest.mark.parametrize("rescued", RESCUED.values(), ids=RESCUED)
def test_a_node_that_was_given_up_and_rescued_stays_spent(rescued: list[Node]) -> None:
    """One of two was rescued, and what replaced it is lost as well."""
    lost = node(NodeState.FAILED, 8, reason=Reason.BOOT_STALLED, launch_id=LaunchId("op-1.2"))
    held, made = [*rescued, attached(1), lost], [made_of(2), made_of(1, ordinal=2)]
    assert made[1].id == lost.launch_id
    assert not isinstance(decide(situation(held, made, spec={"replacements": 2})), GiveUp)
    beyond = decide(situation(held, made, spec={"replacements": 1}))
    assert isinstance(beyond, GiveUp) and beyond.verdict.node_id == lost.id


def test_who_lost_a_node_that_is_the_pools_by_now_is_told_so() -> None:
    decided = decide(situation([attached(1)], [made_of(2)]))
    assert isinstance(decided, GiveUp)
    assert (decided.verdict.reason, decided.verdict.node_id) == (Reason.BOOT_TIMEOUT, None)
    assert "too late" in decided.verdict.message


def test_a_launch_that_is_not_settled_has_lost_nothing() -> None:
    for unsettled in (PLANNED, CALLING):
        assert decide(situation([], [unsettled])) == CallProvider(launch=unsettled)


@pytest.mark.parametrize("state", LOST)
def test_a_lost_node_of_the_pool_is_always_replaced(state: NodeState) -> None:
    pooled = [node(state, n, launch_id=LaunchId("op-refill.1")) for n in range(5)]
    assert decide(situation([*pooled, attached(9)], [made_of(1)])) == Acquire(count=2, usage_class=ON_DEMAND)


def test_machines_of_a_failed_launch_are_no_lost_nodes() -> None:
    partial = launch(LaunchState.SETTLED, usage_class=SPOT, adopted=1, reason=Reason.PARTIAL_LAUNCH)
    taken = node(NodeState.TERMINATING, 1, reason=Reason.PARTIAL_LAUNCH)
    decided = decide(situation([taken], [partial], spec=SPOT_FIRST))
    assert decided == Acquire(count=3, usage_class=ON_DEMAND)


# --- launches that were refused -------------------------------------------------------------------


ANOTHER_MAY_HAVE = [Reason.CAPACITY, Reason.PARTIAL_LAUNCH, Reason.QUOTA]


@pytest.mark.parametrize("reason", ANOTHER_MAY_HAVE)
def test_what_one_usage_class_lacks_falls_back_to_the_next_usage_class(reason: Reason) -> None:
    fallback = situation([claimed(1)], [refused(reason, SPOT)], spec=SPOT_FIRST)
    assert decide(fallback) == Acquire(count=2, usage_class=ON_DEMAND)


def test_the_last_refusal_is_the_verdict_when_no_usage_class_is_left() -> None:
    spot = refused(Reason.CAPACITY, SPOT)
    last = refused(Reason.PARTIAL_LAUNCH, ON_DEMAND, 2, message="1 of 3")
    verdict = Verdict(reason=Reason.PARTIAL_LAUNCH, message="1 of 3")
    assert decide(situation([], [spot, last], spec=SPOT_FIRST)) == GiveUp(verdict=verdict)
    only_spot = decide(situation([], [spot], spec={"usage": (SPOT,)}))
    assert only_spot == GiveUp(verdict=Verdict(reason=Reason.CAPACITY, message="no"))


def test_on_this_machine_the_advice_is_not_a_clouds() -> None:
    at = replace(situation([], [refused(Reason.CAPACITY, ON_DEMAND)]), advice=LOCAL_ADVICE)
    end = decide(at)
    assert isinstance(end, GiveUp)
    assert "raise capacity under [process]" in end.verdict.advice


FINAL = [reason for reason in Reason if reason not in (*ANOTHER_MAY_HAVE, Reason.THROTTLED)]


@pytest.mark.parametrize("reason", FINAL)
def test_any_other_refusal_ends_the_provision_at_once(reason: Reason) -> None:
    at = situation([claimed(1)], [refused(reason, SPOT, message="")], spec=SPOT_FIRST)
    assert decide(at) == GiveUp(verdict=Verdict(reason=reason, message=ADVICE[reason]))
    assert next_usage(at) is None


def throttled(ordinal: int = 1, closed_at: float = NOW) -> Launch:
    spot = refused(Reason.THROTTLED, SPOT, ordinal)
    return replace(spot, closed_at=closed_at)


def test_after_a_throttled_launch_the_same_usage_class_is_tried_again_when_its_pause_is_over() -> None:
    until = again_at([throttled()])
    paused = situation([claimed(1)], [throttled()], spec=SPOT_FIRST)
    assert decide(paused) == Wait(until=until)
    assert "again: it throttles requests" in waiting_for(paused)
    over = replace(paused, now=until)
    assert decide(over) == Acquire(count=2, usage_class=SPOT)
    lacks = [throttled(), refused(Reason.CAPACITY, SPOT, 2)]
    assert decide(situation([], lacks, spec=SPOT_FIRST)) == Acquire(count=3, usage_class=ON_DEMAND)


@pytest.mark.parametrize(("times", "ends"), [(THROTTLED_MOST - 1, False), (THROTTLED_MOST, True)])
def test_asking_a_provider_that_throttles_has_an_end(times: int, ends: bool) -> None:
    launches = [throttled(number, NOW - 1000) for number in range(1, times + 1)]
    assert isinstance(decide(situation([], launches, spec=SPOT_FIRST)), GiveUp) is ends


def test_what_was_throttled_is_no_reason_to_wait_for_nodes_that_are_there() -> None:
    assert isinstance(decide(situation(THREE, [throttled()])), Commit)


def test_a_launch_whose_repeat_was_refused_is_not_called_again() -> None:
    open_still = launch(LaunchState.CALLING, reason=Reason.CAPACITY, usage_class=SPOT, message="none")
    fallback = decide(situation([], [open_still], spec=SPOT_FIRST))
    assert fallback == Acquire(count=3, usage_class=ON_DEMAND)
    verdict = Verdict(reason=Reason.CAPACITY, message="none")
    assert decide(situation([], [open_still], spec={"usage": (SPOT,)})) == GiveUp(verdict=verdict)


def test_a_good_launch_does_not_use_up_its_usage_class() -> None:
    at = situation([attached(1)], [launch(LaunchState.SETTLED, usage_class=SPOT)], spec=SPOT_FIRST)
    assert next_usage(at) is SPOT


# --- what it demands ------------------------------------------------------------------------------


def test_a_demand_follows_the_template_where_the_request_says_nothing() -> None:
    spec: dict[str, Any] = {
        "reuse": Reuse.ALWAYS,
        "instance_types": ("r*",),
        "resource_class": "small",
        **SPOT_FIRST,
    }
    wanted = demand(provision(), template(**spec))
    assert (wanted.template, wanted.revision, wanted.owner) == ("web", REVISION, "alice")
    assert (wanted.usage, wanted.instance_types) == ((SPOT, ON_DEMAND), ("r*",))
    assert (wanted.resource_class, wanted.reuse) == ("small", Reuse.ALWAYS)
    asked = provision(usage=(SPOT,), instance_types=("c*",), resource_class="xlarge")
    special = demand(asked, template(**spec))
    assert (special.usage, special.instance_types) == ((SPOT,), ("c*",))
    assert special.resource_class == "xlarge"


# --- others make way at a provider that is full ---------------------------------------------------

CROWDED = frozenset({Reason.CAPACITY})


@pytest.mark.parametrize("times", [1, WAYS_MOST, WAYS_MOST + 1])
def test_others_make_way_for_a_refused_launch_a_few_times(times: int) -> None:
    launches = [refused(Reason.CAPACITY, ordinal=number + 1) for number in range(times)]
    action = decide(replace(situation([claimed(1)], launches), makes_way=CROWDED))
    assert isinstance(action, MakeWay if times <= WAYS_MOST else GiveUp)
    assert action.verdict.reason is Reason.CAPACITY
    if isinstance(action, MakeWay):
        assert action.launch == launches[-1]


@pytest.mark.parametrize(
    ("launches", "makes_way", "spec"),
    [
        ([refused(Reason.CAPACITY)], frozenset(), {}),
        ([refused(Reason.QUOTA)], CROWDED, {}),
        ([replace(CALLING, reason=Reason.CAPACITY)], CROWDED, {}),
        ([refused(Reason.CAPACITY)], CROWDED, {"retired": True}),
        ([made_of(2), refused(Reason.CAPACITY, ordinal=2)], CROWDED, {}),
    ],
    ids=["it would not help", "another reason", "it may still come", "retired", "its own were lost"],
)
def test_no_node_makes_way_in_vain(
    launches: list[Launch], makes_way: frozenset[Reason], spec: dict[str, Any]
) -> None:
    at = replace(situation([claimed(1)], launches, spec=spec), makes_way=makes_way)
    assert isinstance(decide(at), GiveUp)


def test_another_usage_class_is_tried_before_any_node_makes_way() -> None:
    at = situation([claimed(1)], [refused(Reason.CAPACITY, SPOT)], spec=SPOT_FIRST)
    assert decide(replace(at, makes_way=CROWDED)) == Acquire(count=2, usage_class=ON_DEMAND)


def test_a_launch_for_which_others_made_way_is_called_and_its_nodes_count() -> None:
    again = launch(LaunchState.PLANNED, 2)
    first = refused(Reason.CAPACITY)
    at = replace(situation([claimed(1)], [first, again]), makes_way=CROWDED)
    assert decide(at) == CallProvider(launch=again)
    nodes = [attached(1), attached(2), attached(3)]
    came = [replace(each, launch_id=made_of(3, 2).id) for each in nodes]
    served = replace(situation(came, [first, made_of(3, 2)]), makes_way=CROWDED)
    assert isinstance(decide(served), Commit)


def test_a_queued_provision_waits_its_turn_before_others_make_way_for_it() -> None:
    at = replace(situation([], [refused(Reason.CAPACITY)], queue_timeout=600.0), makes_way=CROWDED)
    lined_up = replace(at.operation, status=Status.QUEUED, queued_since=at.now)
    assert isinstance(decide(replace(at, operation=lined_up)), Queue)
    its_turn = replace(lined_up, status=Status.RUNNING)
    assert isinstance(decide(replace(at, operation=its_turn)), MakeWay)


def test_warm_nodes_that_came_after_a_refusal_serve_the_provision() -> None:
    nodes = [attached(1), attached(2), attached(3)]
    at = replace(situation(nodes, [refused(Reason.CAPACITY)]), makes_way=CROWDED)
    assert isinstance(decide(at), Commit)
