from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from muster.domain import progress_view
from muster.domain.boot import LEAST_FOR_ETA, Boot
from muster.domain.ids import NodeId
from muster.domain.launch import Launch, LaunchState
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import ENDED, Kind, Operation, Status
from muster.domain.progress import GROUP_ABOVE, Motion, Tone, percent_at
from muster.domain.progress_view import at_step, chips, completed, of_provision, why_other, why_provision
from muster.domain.provision_decisions import Situation
from muster.domain.reasons import Reason
from muster.domain.steps import PROVISION_STEPS, REFILL_STEPS, RELEASE_STEPS, RUN_STEPS, STEPS, Steps
from muster.integrations.aks import steps as aks
from tests.domain import builders
from tests.domain.builders import (
    NOW,
    RELEASE,
    attached,
    claimed,
    launch,
    node,
    operation,
    provision,
)

STARTING = node(n=1)
BOOTING = node(n=2, joined_at=NOW - 5)
ATTACHING = node(n=3, joined_at=NOW - 5, booted_at=NOW - 2)
ATTACHED = attached(4)
REFUSED = launch(LaunchState.CALLING, reason=Reason.CAPACITY)
"""Open for the sake of its first call only: its answer isn't awaited."""
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
    done = progress_view.completed(steps, "all good", [ATTACHED])
    assert (done.step, done.total_steps, done.percent) == (len(steps), len(steps), 100.0)
    assert (done.phase, done.label, done.message) == ("completed", steps[-1].label, "all good")
    assert [part.id for part in done.parts] == [ATTACHED.id]


@pytest.mark.parametrize("steps", [PROVISION_STEPS, RELEASE_STEPS, REFILL_STEPS])
def test_a_step_shows_its_own_words_and_its_share(steps: Steps) -> None:
    shown = [progress_view.at_step(steps, step, fraction=0.5) for step in range(1, len(steps))]
    assert [(each.phase, each.label) for each in shown] == [(step.phase, step.label) for step in steps[:-1]]
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
    shown = progress_view.of_provision(at)
    assert shown.phase == phase
    assert [part.id for part in shown.parts] == [held.id for held in at.held]
    assert shown.message


def test_the_share_of_booting_grows_with_each_node_that_gets_further() -> None:
    ladder = [BOOTING, ATTACHING, ATTACHED]
    shares = [progress_view.of_provision(situation(nodes=[each], count=1)).percent for each in ladder]
    assert shares == [40.0, 58.0, 60.0]
    mixed = progress_view.of_provision(situation(nodes=[STARTING, ATTACHED])).percent
    assert mixed == progress_view.at_step(PROVISION_STEPS, 3, fraction=0.5).percent


def test_a_boot_moves_the_bar_from_its_beginning_towards_the_end_of_the_step() -> None:
    old, young = node(n=1, created_at=NOW - 20), node(n=2, created_at=NOW - 5)
    motion = progress_view.of_provision(situation(nodes=[old, young])).motion
    assert motion == Motion(low=40.0, high=60.0, since=NOW - 20, expected=PROVISION_STEPS[2].seconds)
    one_up = progress_view.of_provision(situation(nodes=[ATTACHED, young])).motion
    assert one_up == Motion(low=50.0, high=60.0, since=NOW - 5, expected=PROVISION_STEPS[2].seconds)


def test_what_is_paused_stands_and_what_works_moves() -> None:
    selecting = situation()
    assert progress_view.of_provision(selecting).motion is not None
    assert progress_view.of_provision(replace(selecting, paused=True)).motion is None
    assert progress_view.at_step(PROVISION_STEPS, 5, since=NOW).motion is None


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
    (chip,) = progress_view.chips([shown])
    assert (chip.id, chip.name, chip.state, chip.tone) == (shown.id, shown.id, stage, tone)
    assert (chip.count, chip.since) == (1, shown.entered_at)


def test_as_many_nodes_as_are_readable_have_a_chip_each() -> None:
    many = [node(n=n) for n in range(GROUP_ABOVE)]
    assert [chip.id for chip in progress_view.chips(many)] == [each.id for each in many]


def test_more_nodes_than_are_readable_have_one_chip_per_stage() -> None:
    ready = [attached(n) for n in range(3)]
    many = [*ready, *(node(n=n) for n in range(3, GROUP_ABOVE + 1))]
    chips = progress_view.chips(many)
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
        (situation(launches=[launch(count=7)]), "waiting for simulated to create 7 nodes"),
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
    why = progress_view.why_provision(at)
    assert why.waits_for == waits_for
    assert (why.operation_id, why.status) == ("op-1", at.operation.status)


def test_why_in_the_queue_has_a_position_and_the_end_of_the_patience() -> None:
    why = progress_view.why_provision(situation(QUEUED, ahead=2, queue_timeout=200.0))
    assert (why.position, why.since, why.until) == (3, NOW - 30, NOW + 100)
    late = progress_view.why_provision(situation(QUEUED, ahead=2, queue_timeout=10_000.0))
    assert late.until == QUEUED.deadline_at


def test_why_outside_the_queue_counts_from_the_start_to_the_deadline() -> None:
    for op in (operation(), operation(queued_since=NOW - 5), operation(status=Status.QUEUED)):
        why = progress_view.why_provision(situation(op, queue_timeout=1.0))
        assert (why.position, why.since, why.until) == (None, op.created_at, op.deadline_at)


@pytest.mark.parametrize("status", ENDED)
def test_what_has_ended_waits_for_nothing(status: Status) -> None:
    over = operation(status=status)
    assert progress_view.why_provision(situation(over)).waits_for == "nothing: the operation has ended"
    assert progress_view.why_other(over).waits_for == "nothing: the operation has ended"


def test_why_of_another_kind_repeats_its_progress() -> None:
    working = operation(progress=progress_view.at_step(RELEASE_STEPS, 2, message="waiting for 2 nodes"))
    why = progress_view.why_other(working)
    assert why.waits_for == "waiting for 2 nodes"
    assert (why.since, why.until, why.position) == (working.created_at, working.deadline_at, None)
    assert (why.operation_id, why.status) == (working.id, working.status)
    assert progress_view.why_other(operation()).waits_for == "waiting for a replica to pick it up"


KINDS = {**STEPS, Kind.CLUSTER_CREATE: aks.STEPS.create, Kind.CLUSTER_DELETE: aks.STEPS.delete}


@pytest.mark.parametrize("kind", Kind)
def test_the_steps_of_a_kind_are_known_before_it_begins(kind: Kind) -> None:
    steps = KINDS[kind]
    assert steps[-1].phase == "completed"
    assert len({step.phase for step in steps}) == len(steps)
    assert all(step.label and step.seconds > 0 for step in steps[:-1])


SETTLED = launch(LaunchState.SETTLED)


def boots(seconds: float, kind: str = "m5.large") -> list[Boot]:
    one = Boot(
        node_id=NodeId("node-0"),
        template="web",
        revision=1,
        instance_type=kind,
        booted_at=NOW,
        seconds=seconds,
        phases=(),
    )
    return [one] * LEAST_FOR_ETA


@pytest.mark.parametrize(
    ("steps", "phases"),
    [
        (PROVISION_STEPS, "selecting creating booting handing_over completed"),
        (RELEASE_STEPS, "releasing detaching completed"),
        (REFILL_STEPS, "creating booting completed"),
        (RUN_STEPS, "selecting creating booting handing_over running releasing completed"),
    ],
)
def test_each_kind_has_its_steps_in_order_and_ends_at_a_hundred(steps: Steps, phases: str) -> None:
    shown = [at_step(steps, number + 1) for number in range(len(steps))]
    assert " ".join(each.phase for each in shown) == phases
    assert all(each.label and each.total_steps == len(steps) for each in shown)
    assert [each.percent == 100.0 for each in shown] == [False] * (len(steps) - 1) + [True]


def test_what_is_completed_shows_its_message_and_its_nodes() -> None:
    shown = completed(PROVISION_STEPS, "3 nodes", [node(NodeState.RUNNING)])
    assert (shown.step, shown.message, len(shown.parts)) == (len(PROVISION_STEPS), "3 nodes", 1)


# --- where a provision is -------------------------------------------------------------------------


def test_a_provision_is_shown_in_the_step_that_it_is_in_with_its_nodes() -> None:
    held = [attached(n) for n in (1, 2, 3)]
    handing = of_provision(
        builders.situation(held, op=operation(request=provision(count=3), committed_at=NOW))
    )
    assert (handing.step, handing.message, len(handing.parts)) == (4, "handing over", 3)
    creating = of_provision(builders.situation(held[:1], [launch()]))
    assert (creating.step, len(creating.parts)) == (2, 1)
    assert creating.message.startswith("waiting for simulated")
    selecting = of_provision(builders.situation(held[:1], [SETTLED]))
    assert (selecting.step, len(selecting.parts)) == (1, 1)
    assert selecting.message == "waiting for 2 of 3 nodes"


# --- when it should be over -----------------------------------------------------------------------


def expected(*held: Node, seconds: float = 100.0) -> float | None:
    at = builders.situation(held, [SETTLED], count=len(held))
    return of_provision(replace(at, boots=[*boots(seconds), *boots(2 * seconds, "c5.large")])).expected_at


def test_the_last_boot_says_when_it_should_be_over() -> None:
    first = node(n=1, created_at=NOW - 10)
    second = node(n=2, created_at=NOW - 5, instance_type="c5.large")
    third = node(n=3, created_at=NOW - 1)
    assert expected(first, second, third) == NOW - 5 + 200
    assert expected(first, attached(2, created_at=NOW - 1)) == NOW - 10 + 100
    assert expected(attached(1)) is None


@pytest.mark.parametrize("over", [-1.0, 0.0, 1.0])
def test_a_boot_that_takes_longer_than_usual_has_no_expected_end(over: float) -> None:
    late = node(n=1, created_at=NOW - 100 - over)
    on_time = node(n=2, created_at=NOW)
    assert expected(on_time, late) == (None if over >= 0 else NOW + 100)
    assert expected(node(instance_type="unknown")) is None


def test_a_boot_is_as_far_as_its_time_and_the_usual_one_of_its_type_say() -> None:
    def share(created_at: float) -> float:
        at = builders.situation([node(created_at=created_at)], [SETTLED], count=1)
        return percent_at(of_provision(replace(at, boots=boots(100.0))), NOW)

    assert [share(NOW), share(NOW - 50), share(NOW - 100)] == pytest.approx([40.0, 47.0, 54.0])
    unknown = of_provision(builders.situation([node(created_at=NOW)], [SETTLED], count=1)).motion
    assert unknown is not None and unknown.expected == PROVISION_STEPS[2].seconds


# --- chips ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "state", "tone", "detail"),
    [
        (node(phase="boot_script"), "starting", Tone.ACTIVE, "boot script"),
        (node(joined_at=NOW, phase="boot_script", step="apt"), "booting", Tone.ACTIVE, "apt"),
        (node(joined_at=NOW, booted_at=NOW, phase="booted"), "attaching", Tone.ACTIVE, ""),
        (attached(phase="booted"), "attached", Tone.SUCCESS, ""),
        (node(NodeState.CLAIMED, booted_at=None, phase="booted"), "booting", Tone.ACTIVE, ""),
        (node(NodeState.RUNNING), "running", Tone.SUCCESS, ""),
        (node(NodeState.IDLE), "idle", Tone.SUCCESS, ""),
        (node(NodeState.RELEASING, attached_at=NOW), "releasing", Tone.ACTIVE, ""),
        (node(NodeState.FAILED), "failed", Tone.DANGER, ""),
        (node(NodeState.TERMINATING), "terminating", Tone.WARNING, ""),
        (node(NodeState.TERMINATED), "terminated", Tone.WARNING, ""),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_node_s_chip_says_its_stage_its_tone_and_what_its_boot_is_at(
    one: Node, state: str, tone: Tone, detail: str
) -> None:
    (chip,) = chips([one])
    assert (chip.state, chip.tone, chip.detail) == (state, tone, detail)
    assert (chip.id, chip.name, chip.since, chip.count) == (one.id, one.id, one.entered_at, 1)


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_too_many_nodes_are_one_chip_per_stage(more: int) -> None:
    many = [node(NodeState.RUNNING, n) for n in range(GROUP_ABOVE + more - 2)]
    shown = chips([*many, node(NodeState.FAILED, 98), node(NodeState.FAILED, 99)])
    if more > 0:
        assert [(chip.id, chip.count, chip.tone) for chip in shown] == [
            ("running", len(many), Tone.SUCCESS),
            ("failed", 2, Tone.DANGER),
        ]
    else:
        assert [chip.count for chip in shown] == [1] * (GROUP_ABOVE + more)


# --- why ------------------------------------------------------------------------------------------


def test_why_a_queued_provision_waits_ends_with_its_patience_or_its_deadline() -> None:
    queued = operation(request=provision(), status=Status.QUEUED, queued_since=NOW - 5)
    at = builders.situation(op=queued, ahead=2, queue_timeout=150.0)
    why = why_provision(at)
    assert (why.since, why.until, why.position) == (NOW - 5, queued.created_at + 150.0, 3)
    patient = why_provision(builders.situation(op=queued, queue_timeout=9999.0))
    assert patient.until == queued.deadline_at


def test_why_a_running_provision_waits_counts_from_its_beginning() -> None:
    tried = operation(request=provision(), queued_since=NOW - 5)
    why = why_provision(builders.situation(op=tried, ahead=2, queue_timeout=150.0))
    assert (why.since, why.until, why.position) == (tried.created_at, tried.deadline_at, None)


def test_another_operation_waits_for_what_its_progress_says_or_for_a_driver() -> None:
    fresh = operation(request=RELEASE)
    why = why_other(fresh)
    assert why.waits_for == "waiting for a replica to pick it up"
    assert (why.since, why.until, why.position) == (fresh.created_at, fresh.deadline_at, None)
    shown = at_step(RELEASE_STEPS, 2, message="2 nodes detach")
    assert why_other(replace(fresh, progress=shown)).waits_for == "2 nodes detach"
