"""What is shown: steps in their order, chips with their details, and when it should be over."""

from dataclasses import replace

import pytest

from muster.domain.boot import LEAST_FOR_ETA, Boot
from muster.domain.ids import NodeId
from muster.domain.launch import LaunchState
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Status
from muster.domain.progress import GROUP_ABOVE, Tone
from muster.domain.showing import (
    PROVISION_STEPS,
    REFILL_STEPS,
    RELEASE_STEPS,
    RUN_STEPS,
    Steps,
    at_step,
    chips,
    completed,
    of_provision,
    why_other,
    why_provision,
)
from tests.domain.builders import NOW, RELEASE, attached, launch, node, operation, provision, situation

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
    handing = of_provision(situation(held, op=operation(request=provision(count=3), committed_at=NOW)))
    assert (handing.step, handing.message, len(handing.parts)) == (4, "handing over", 3)
    creating = of_provision(situation(held[:1], [launch()]))
    assert (creating.step, len(creating.parts)) == (2, 1)
    assert creating.message.startswith("waiting for simulated")
    selecting = of_provision(situation(held[:1], [SETTLED]))
    assert (selecting.step, len(selecting.parts)) == (1, 1)
    assert selecting.message == "waiting for 2 of 3 nodes"


# --- when it should be over -----------------------------------------------------------------------


def expected(*held: Node, seconds: float = 100.0) -> float | None:
    at = situation(held, [SETTLED], count=len(held))
    return of_provision(replace(at, boots=[*boots(seconds), *boots(2 * seconds, "c5.large")])).expected_at


def test_the_last_boot_says_when_it_should_be_over() -> None:
    first = node(n=1, created_at=NOW - 10)
    second = node(n=2, created_at=NOW - 5, instance_type="c5.large")
    third = node(n=3, created_at=NOW - 1)
    assert expected(first, second, third) == NOW - 5 + 200
    assert expected(first, attached(2, created_at=NOW - 1)) == NOW - 10 + 100
    assert expected(attached(1)) is None


@pytest.mark.parametrize("over", [-1.0, 0.0, 1.0])
def test_nobody_knows_of_a_boot_that_takes_longer_than_usual(over: float) -> None:
    late = node(n=1, created_at=NOW - 100 - over)
    on_time = node(n=2, created_at=NOW)
    assert expected(on_time, late) == (None if over >= 0 else NOW + 100)
    assert expected(node(instance_type="unknown")) is None


def test_a_boot_is_as_far_as_its_time_says_but_not_less_than_its_stage() -> None:
    def share(created_at: float) -> float:
        at = situation([node(created_at=created_at)], [SETTLED], count=1)
        return of_provision(replace(at, boots=boots(100.0))).percent

    assert share(NOW) < share(NOW - 50) < share(NOW - 90)
    assert share(NOW) == of_provision(situation([node()], [SETTLED], count=1)).percent


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
    at = situation(op=queued, ahead=2, queue_timeout=150.0)
    why = why_provision(at)
    assert (why.since, why.until, why.position) == (NOW - 5, queued.created_at + 150.0, 3)
    patient = why_provision(situation(op=queued, queue_timeout=9999.0))
    assert patient.until == queued.deadline_at


def test_why_a_running_provision_waits_counts_from_its_beginning() -> None:
    tried = operation(request=provision(), queued_since=NOW - 5)
    why = why_provision(situation(op=tried, ahead=2, queue_timeout=150.0))
    assert (why.since, why.until, why.position) == (tried.created_at, tried.deadline_at, None)


def test_what_has_ended_waits_for_nothing() -> None:
    over = operation(request=provision(), status=Status.SUCCEEDED)
    assert why_provision(situation(op=over)).waits_for == "nothing: it has ended"
    assert why_other(replace(over, request=RELEASE)).waits_for == "nothing: it has ended"


def test_another_operation_waits_for_what_its_progress_says_or_for_somebody_to_begin() -> None:
    fresh = operation(request=RELEASE)
    why = why_other(fresh)
    assert why.waits_for == "waiting for a replica to pick it up"
    assert (why.since, why.until, why.position) == (fresh.created_at, fresh.deadline_at, None)
    shown = at_step(RELEASE_STEPS, 2, message="2 nodes detach")
    assert why_other(replace(fresh, progress=shown)).waits_for == "2 nodes detach"
