"""How the state of an operation is shown: steps, labels, chips, and why it waits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from muster.domain.boot import by_type, expected
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Operation, Status
from muster.domain.progress import GROUP_ABOVE, Motion, Part, Progress, Tone, percent
from muster.domain.provision_decisions import Situation, waiting_for
from muster.domain.reasons import ADVICE
from muster.domain.steps import PROVISION_STEPS, Steps

UP = 0.9
"""The share of its way that a node has gone when it is up and not yet attached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """The answer to "why am I waiting", or to "why did it end so"."""

    operation_id: str
    status: Status
    waits_for: str
    since: float
    until: float
    position: int | None
    """Place in the queue, from 1; None if it isn't queued."""
    because: str = ""
    """Why it ended as it did; empty before that."""
    advice: str = ""


def at_step(
    steps: Steps,
    number: int,
    *,
    fraction: float = 0.0,
    message: str = "",
    parts: tuple[Part, ...] = (),
    since: float | None = None,
    expected: float | None = None,
) -> Progress:
    """Show a step, with the `fraction` of it that is done.

    `since`: the bar moves by time from then on, if it doesn't move already. None: it stands.
    `expected`: the seconds that this usually takes; the step's own if there is no history.
    """
    step, total = steps[number - 1], len(steps)
    last = number == total
    share = 100.0 if last else percent(step=number, total_steps=total, fraction=fraction)
    motion = None
    if since is not None and not last:
        end = percent(step=number, total_steps=total, fraction=1.0)
        motion = Motion(low=share, high=end, since=since, expected=expected or step.seconds)
    return Progress(
        step=number,
        total_steps=total,
        phase=step.phase,
        label=step.label,
        message=message,
        percent=share,
        motion=motion,
        parts=parts,
    )


def completed(steps: Steps, message: str, nodes: Sequence[Node]) -> Progress:
    return at_step(steps, len(steps), message=message, parts=chips(nodes))


def stopped(shown: Progress | None, nodes: Sequence[Node]) -> Progress | None:
    """Show an operation that failed or was cancelled. Its chips show what became of the nodes."""
    return replace(shown, parts=chips(nodes)) if shown is not None and shown.parts else shown


def of_provision(at: Situation) -> Progress:
    held = at.held
    parts = chips(held)
    if at.operation.committed:
        return at_step(PROVISION_STEPS, 4, message="handing over", parts=parts, since=at.now)
    message = waiting_for(at)
    if at.throttled or any(launch.pending for launch in at.launches):
        return at_step(PROVISION_STEPS, 2, message=message, parts=parts, since=at.now)
    if len(held) < at.request.count:
        since = None if at.paused else at.now
        return at_step(PROVISION_STEPS, 1, message=message, parts=parts, since=since)
    usual = {kind: expected(some) for kind, some in by_type(at.boots).items()}
    shown = booting(PROVISION_STEPS, 3, held, usual=usual, message=message, now=at.now)
    return replace(shown, expected_at=_expected_at(held, usual, at.now))


def booting(
    steps: Steps,
    number: int,
    nodes: Sequence[Node],
    *,
    usual: Mapping[str, float | None],
    message: str,
    now: float,
) -> Progress:
    """Show nodes that boot: those that are up count in full, the others by time.

    `usual`: the seconds that a boot takes, by instance type, as far as that is known.
    """
    waiting = [node for node in nodes if not node.up]
    known = [usual.get(node.instance_type) for node in waiting]
    return at_step(
        steps,
        number,
        fraction=sum(_readiness(node) for node in nodes) / len(nodes) if nodes else 0.0,
        message=message,
        parts=chips(nodes),
        since=min((node.created_at for node in waiting), default=now),
        expected=max((seconds for seconds in known if seconds is not None), default=None),
    )


def _readiness(node: Node) -> float:
    return 1.0 if node.attached else UP if node.up else 0.0


def _expected_at(held: Sequence[Node], usual: Mapping[str, float | None], now: float) -> float | None:
    """Return when the last boot should be over.

    None: nothing is known of one of them, or it takes longer than usual.
    """
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
    if operation.ended:
        return why_other(operation)
    queued = operation.queued_since if operation.status is Status.QUEUED else None
    until = operation.deadline_at
    if queued is not None:
        until = min(until, operation.created_at + at.request.queue_timeout)
    return Why(
        operation_id=operation.id,
        status=operation.status,
        waits_for=waiting_for(at),
        since=queued if queued is not None else operation.created_at,
        until=until,
        position=at.ahead + 1 if queued is not None else None,
    )


def why_other(operation: Operation) -> Why:
    message = operation.progress.message if operation.progress else "waiting for a replica to pick it up"
    because, advice = _ending(operation) if operation.ended else ("", "")
    return Why(
        operation_id=operation.id,
        status=operation.status,
        waits_for="nothing: the operation has ended" if operation.ended else message,
        since=operation.created_at,
        until=operation.deadline_at,
        position=None,
        because=because,
        advice=advice,
    )


def _ending(operation: Operation) -> tuple[str, str]:
    """Return why the operation ended so, and what to do about it."""
    verdict, shown = operation.verdict, operation.progress
    if verdict is not None:
        return f"{verdict.reason}: {verdict.message}", verdict.advice or ADVICE[verdict.reason]
    return (shown.message if shown else "") or f"it {operation.status}", ""


def chips(nodes: Sequence[Node]) -> tuple[Part, ...]:
    """Return one chip per node; above a readable number, one per stage."""
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
    """Return what the boot does: the step that its script names, else the phase."""
    if node.up or node.state is not NodeState.CREATED:
        return ""
    return node.step or node.phase.replace("_", " ")


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
