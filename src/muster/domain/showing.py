"""How the state of an operation is shown: steps, labels, chips, and why it waits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from muster.domain.boot import by_type, expected
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Kind, Operation, Status
from muster.domain.progress import GROUP_ABOVE, Part, Progress, Tone, guessed, percent
from muster.domain.provisioning import Situation, waiting_for

PROVISION_STEPS = (
    ("selecting", "Selecting warm nodes"),
    ("creating", "Creating the missing nodes"),
    ("booting", "Booting and attaching"),
    ("handing_over", "Handing over"),
    ("completed", "Nodes ready"),
)
RELEASE_STEPS = (
    ("releasing", "Taking the nodes back"),
    ("detaching", "Waiting until they are clean"),
    ("completed", "Nodes returned"),
)
REFILL_STEPS = (
    ("creating", "Creating warm nodes"),
    ("booting", "Booting"),
    ("completed", "Pool refilled"),
)
RUN_STEPS = (
    *PROVISION_STEPS[:4],
    ("running", "Running the commands"),
    ("releasing", "Giving the nodes back"),
    ("completed", "Run completed"),
)
Steps = tuple[tuple[str, str], ...]
STEPS: Mapping[Kind, Steps] = {
    Kind.PROVISION: PROVISION_STEPS,
    Kind.RELEASE: RELEASE_STEPS,
    Kind.REFILL: REFILL_STEPS,
    Kind.RUN: RUN_STEPS,
}
"""Phase and label of every step that a kind of operation goes through, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """The answer to "why am I waiting"."""

    operation_id: str
    status: Status
    waits_for: str
    since: float
    until: float
    position: int | None
    """Place in the queue, from 1; None if it isn't queued."""


def at_step(
    steps: Steps, step: int, *, fraction: float = 0.0, message: str = "", parts: tuple[Part, ...] = ()
) -> Progress:
    phase, label = steps[step - 1]
    total = len(steps)
    share = 100.0 if step == total else percent(step=step, total_steps=total, fraction=fraction)
    return Progress(
        step=step, total_steps=total, phase=phase, label=label, message=message, percent=share, parts=parts
    )


def completed(steps: Steps, message: str, nodes: Sequence[Node]) -> Progress:
    return at_step(steps, len(steps), message=message, parts=chips(nodes))


def stopped(shown: Progress | None, nodes: Sequence[Node]) -> Progress | None:
    """It failed or was cancelled where it stood; its chips tell what became of the nodes."""
    return replace(shown, parts=chips(nodes)) if shown is not None and shown.parts else shown


def of_provision(at: Situation) -> Progress:
    held = at.held
    parts = chips(held)
    if at.operation.committed:
        return at_step(PROVISION_STEPS, 4, message="handing over", parts=parts)
    message = waiting_for(at)
    if at.throttled or any(launch.pending for launch in at.launches):
        return at_step(PROVISION_STEPS, 2, message=message, parts=parts)
    if len(held) < at.request.count:
        return at_step(PROVISION_STEPS, 1, message=message, parts=parts)
    usual = {kind: expected(some) for kind, some in by_type(at.boots).items()}
    ready = sum(_readiness(node, usual.get(node.instance_type), at.now) for node in held) / len(held)
    shown = at_step(PROVISION_STEPS, 3, fraction=ready, message=message, parts=parts)
    return replace(shown, expected_at=_expected_at(held, usual, at.now))


def _expected_at(held: Sequence[Node], usual: Mapping[str, float | None], now: float) -> float | None:
    """When the last boot should be over; None if nothing is known of one of them, or if it takes longer than
    they usually do: then nobody knows."""
    latest = 0.0
    for node in held:
        if node.up:
            continue
        seconds = usual.get(node.instance_type)
        if seconds is None or node.created_at + seconds <= now:
            return None
        latest = max(latest, node.created_at + seconds)
    return latest or None


def why_provision(at: Situation) -> Why:
    operation = at.operation
    queued = operation.queued_since if operation.status is Status.QUEUED else None
    until = operation.deadline_at
    if queued is not None:
        until = min(until, operation.created_at + at.request.queue_timeout)
    return Why(
        operation_id=operation.id,
        status=operation.status,
        waits_for="nothing: it has ended" if operation.ended else waiting_for(at),
        since=queued if queued is not None else operation.created_at,
        until=until,
        position=at.ahead + 1 if queued is not None else None,
    )


def why_other(operation: Operation) -> Why:
    message = operation.progress.message if operation.progress else "waiting for a replica to pick it up"
    return Why(
        operation_id=operation.id,
        status=operation.status,
        waits_for="nothing: it has ended" if operation.ended else message,
        since=operation.created_at,
        until=operation.deadline_at,
        position=None,
    )


def chips(nodes: Sequence[Node]) -> tuple[Part, ...]:
    """One chip per node; above a readable number, one per stage."""
    if len(nodes) <= GROUP_ABOVE:
        return tuple(
            Part(
                id=node.id,
                name=node.id,
                state=_stage(node),
                tone=_tone(node),
                detail=_boot_detail(node),
                since=node.entered_at,
            )
            for node in nodes
        )
    grouped: dict[str, Part] = {}
    for node in nodes:
        stage = _stage(node)
        count = grouped[stage].count + 1 if stage in grouped else 1
        grouped[stage] = Part(id=stage, name=stage, state=stage, tone=_tone(node), count=count)
    return tuple(grouped.values())


def _stage(node: Node) -> str:
    if node.state in (NodeState.CREATED, NodeState.CLAIMED):
        if node.attached:
            return "attached"
        if node.up:
            return "attaching"
        return "booting" if node.joined_at is not None else "starting"
    return str(node.state)


def _boot_detail(node: Node) -> str:
    """What its boot is at: the step that its script names, else the phase."""
    if node.up or node.state is not NodeState.CREATED:
        return ""
    return node.step or node.phase.replace("_", " ")


_READY = {"starting": 0.1, "booting": 0.3, "attaching": 0.9, "attached": 1.0}


def _readiness(node: Node, usual: float | None, now: float) -> float:
    """How far it is on its way to being attached. While it boots, time tells, if one knows what is usual."""
    least = _READY.get(_stage(node), 0.0)
    if node.up or usual is None:
        return least
    share = guessed(elapsed=now - node.created_at, expected=usual)
    return max(least, share * _READY["attaching"])


def _tone(node: Node) -> Tone:
    match node.state:
        case NodeState.RUNNING | NodeState.IDLE:
            return Tone.SUCCESS
        case NodeState.FAILED:
            return Tone.DANGER
        case NodeState.TERMINATING | NodeState.TERMINATED:
            return Tone.WARNING
        case NodeState.CREATED | NodeState.CLAIMED | NodeState.RELEASING:
            return Tone.SUCCESS if node.attached and node.state is not NodeState.RELEASING else Tone.ACTIVE
