from collections.abc import Sequence
from typing import Any

import pytest

from muster.domain import showing
from muster.domain.launch import Launch, LaunchState
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import ENDED, Kind, Operation, Status
from muster.domain.progress import GROUP_ABOVE, Tone
from muster.domain.provisioning import Situation
from muster.domain.reasons import Reason
from muster.domain.showing import PROVISION_STEPS, REFILL_STEPS, RELEASE_STEPS, STEPS, Steps
from tests.domain import builders
from tests.domain.builders import NOW, attached, claimed, launch, node, operation, provision

STARTING = node(n=1)
BOOTING = node(n=2, joined_at=NOW - 5)
ATTACHING = node(n=3, joined_at=NOW - 5, booted_at=NOW - 2)
ATTACHED = attached(4)
REFUSED = launch(LaunchState.CALLING, reason=Reason.CAPACITY)
"""Open for the sake of its first call only: nobody waits for its answer."""
QUEUED = operation(
    status=Status.QUEUED, queued_since=NOW - 30, request=provision(queue_timeout=200.0), created_at=NOW - 100
)


def situation(
    op: Operation | None = None,
    nodes: Sequence[Node] = (),
    launches: Sequence[Launch] = (),
    *,
    ahead: int = 0,
    **request: Any,
) -> Situation:
    return builders.situation(nodes, launches, op=op, ahead=ahead, **({"count": 2} | request))


# --- steps ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [PROVISION_STEPS, RELEASE_STEPS, REFILL_STEPS])
def test_every_kind_of_operation_ends_completed_at_a_hundred_percent(steps: Steps) -> None:
    done = showing.completed(steps, "all good", [ATTACHED])
    assert (done.step, done.total_steps, done.percent) == (len(steps), len(steps), 100.0)
    assert (done.phase, done.label, done.message) == ("completed", steps[-1][1], "all good")
    assert [part.id for part in done.parts] == [ATTACHED.id]


@pytest.mark.parametrize("steps", [PROVISION_STEPS, RELEASE_STEPS, REFILL_STEPS])
def test_a_step_shows_its_own_words_and_its_share(steps: Steps) -> None:
    shown = [showing.at_step(steps, step, fraction=0.5) for step in range(1, len(steps))]
    assert [(each.phase, each.label) for each in shown] == list(steps[:-1])
    assert [each.percent for each in shown] == [
        round(100 * (step + 0.5) / len(steps), 2) for step in range(len(steps) - 1)
    ]


@pytest.mark.parametrize(
    ("at", "phase"),
    [
        (situation(), "selecting"),
        (situation(nodes=[claimed()]), "selecting"),
        (situation(launches=[launch()]), "creating"),
        (situation(launches=[launch(LaunchState.CALLING)], nodes=[claimed()]), "creating"),
        (situation(launches=[launch(LaunchState.SETTLED)]), "selecting"),
        (situation(launches=[REFUSED], nodes=[claimed()]), "selecting"),
        (situation(launches=[REFUSED], nodes=[STARTING, BOOTING]), "booting"),
        (situation(nodes=[STARTING, BOOTING], launches=[launch(LaunchState.SETTLED)]), "booting"),
        (situation(operation(committed_at=NOW), nodes=[ATTACHED]), "handing_over"),
        (situation(operation(committed_at=NOW)), "handing_over"),
    ],
)
def test_a_provision_shows_where_it_stands(at: Situation, phase: str) -> None:
    shown = showing.of_provision(at)
    assert shown.phase == phase
    assert [part.id for part in shown.parts] == [held.id for held in at.held]
    assert shown.message


def test_the_share_of_booting_grows_with_each_node_that_gets_further() -> None:
    ladder = [STARTING, BOOTING, ATTACHING, ATTACHED]
    shares = [showing.of_provision(situation(nodes=[each], count=1)).percent for each in ladder]
    assert shares == sorted(set(shares))
    assert shares[-1] == showing.at_step(PROVISION_STEPS, 3, fraction=1.0).percent
    assert shares[0] == showing.at_step(PROVISION_STEPS, 3, fraction=0.1).percent
    mixed = showing.of_provision(situation(nodes=[STARTING, ATTACHED])).percent
    assert mixed == showing.at_step(PROVISION_STEPS, 3, fraction=0.55).percent


# --- chips ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "stage", "tone"),
    [
        (STARTING, "starting", Tone.ACTIVE),
        (BOOTING, "booting", Tone.ACTIVE),
        (ATTACHING, "attaching", Tone.ACTIVE),
        (ATTACHED, "attached", Tone.SUCCESS),
        (claimed(), "attaching", Tone.ACTIVE),
        (attached(state=NodeState.CLAIMED), "attached", Tone.SUCCESS),
        (node(NodeState.IDLE), "idle", Tone.SUCCESS),
        (node(NodeState.RUNNING), "running", Tone.SUCCESS),
        (node(NodeState.RELEASING, attached_at=NOW), "releasing", Tone.ACTIVE),
        (node(NodeState.FAILED), "failed", Tone.DANGER),
        (node(NodeState.TERMINATING), "terminating", Tone.WARNING),
        (node(NodeState.TERMINATED), "terminated", Tone.WARNING),
    ],
)
def test_a_chip_shows_the_stage_of_its_node(shown: Node, stage: str, tone: Tone) -> None:
    (chip,) = showing.chips([shown])
    assert (chip.id, chip.name, chip.state, chip.tone) == (shown.id, shown.id, stage, tone)
    assert (chip.count, chip.since) == (1, shown.entered_at)


def test_as_many_nodes_as_are_readable_have_a_chip_each() -> None:
    many = [node(n=n) for n in range(GROUP_ABOVE)]
    assert [chip.id for chip in showing.chips(many)] == [each.id for each in many]


def test_more_nodes_than_are_readable_have_one_chip_per_stage() -> None:
    ready = [attached(n) for n in range(3)]
    many = [*ready, *(node(n=n) for n in range(3, GROUP_ABOVE + 1))]
    chips = showing.chips(many)
    assert [(chip.id, chip.name, chip.state, chip.count, chip.tone) for chip in chips] == [
        ("attached", "attached", "attached", 3, Tone.SUCCESS),
        ("starting", "starting", "starting", GROUP_ABOVE - 2, Tone.ACTIVE),
    ]


# --- why ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "waits_for"),
    [
        (situation(QUEUED, ahead=3), "waiting for room under the caps, 3 ahead in the queue"),
        (situation(QUEUED, ahead=5), "waiting for room under the caps, 5 ahead in the queue"),
        (situation(QUEUED, ahead=6), "waiting for room under the caps, more than 5 ahead in the queue"),
        (situation(QUEUED, ahead=10), "waiting for room under the caps, more than 5 ahead in the queue"),
        (situation(QUEUED, ahead=9999), "waiting for room under the caps, more than 1000 ahead in the queue"),
        (situation(QUEUED, ahead=0), "waiting for room under the caps, next in the queue"),
        (situation(launches=[launch(count=7)]), "waiting for simulated to answer for 7 nodes"),
        (situation(launches=[REFUSED], nodes=[claimed()]), "waiting for 1 of 2 nodes"),
        (situation(nodes=[claimed()], count=3), "waiting for 2 of 3 nodes"),
        (situation(operation(status=Status.QUEUED)), "waiting for 2 of 2 nodes"),
        (situation(operation(queued_since=NOW)), "waiting for 2 of 2 nodes"),
        (situation(nodes=[STARTING, ATTACHING]), "waiting for 1 node to boot and 1 node to attach"),
        (situation(nodes=[STARTING, BOOTING]), "waiting for 2 nodes to boot"),
        (situation(nodes=[ATTACHED, ATTACHING]), "waiting for 1 node to attach"),
        (situation(nodes=[ATTACHED, attached(5)]), "waiting for fresh heartbeats of all nodes"),
    ],
)
def test_why_says_what_a_provision_waits_for(at: Situation, waits_for: str) -> None:
    why = showing.why_provision(at)
    assert why.waits_for == waits_for
    assert (why.operation_id, why.status) == ("op-1", at.operation.status)


def test_why_in_the_queue_has_a_position_and_the_end_of_the_patience() -> None:
    why = showing.why_provision(situation(QUEUED, ahead=2, queue_timeout=200.0))
    assert (why.position, why.since, why.until) == (3, NOW - 30, NOW + 100)
    late = showing.why_provision(situation(QUEUED, ahead=2, queue_timeout=10_000.0))
    assert late.until == QUEUED.deadline_at


def test_why_outside_the_queue_counts_from_the_start_to_the_deadline() -> None:
    for op in (operation(), operation(queued_since=NOW - 5), operation(status=Status.QUEUED)):
        why = showing.why_provision(situation(op, queue_timeout=1.0))
        assert (why.position, why.since, why.until) == (None, op.created_at, op.deadline_at)


@pytest.mark.parametrize("status", ENDED)
def test_what_has_ended_waits_for_nothing(status: Status) -> None:
    over = operation(status=status)
    assert showing.why_provision(situation(over)).waits_for == "nothing: it has ended"
    assert showing.why_other(over).waits_for == "nothing: it has ended"


def test_why_of_another_kind_repeats_its_progress() -> None:
    working = operation(progress=showing.at_step(RELEASE_STEPS, 2, message="waiting for 2 nodes"))
    why = showing.why_other(working)
    assert why.waits_for == "waiting for 2 nodes"
    assert (why.since, why.until, why.position) == (working.created_at, working.deadline_at, None)
    assert (why.operation_id, why.status) == (working.id, working.status)
    assert showing.why_other(operation()).waits_for == "waiting for a replica to pick it up"


@pytest.mark.parametrize("kind", [Kind.PROVISION, Kind.RELEASE, Kind.REFILL, Kind.RUN])
def test_the_steps_of_a_kind_are_known_before_it_begins(kind: Kind) -> None:
    steps = STEPS[kind]
    assert steps[-1][0] == "completed"
    assert len({phase for phase, _ in steps}) == len(steps)
