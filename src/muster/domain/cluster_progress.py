"""How the work on a cluster is shown: the step of its provider, the pools, and how long it takes."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from muster.domain.cluster import ClusterSteps
from muster.domain.cluster_decisions import Situation
from muster.domain.operation import Kind
from muster.domain.progress import Part, Progress, Tone
from muster.domain.progress_view import at_step

UNKNOWN = "unknown"
LEARNED_FROM = 20
"""The last so many creates of a template say how long the next one takes."""


def expected(history: Sequence[float]) -> float | None:
    """What a create usually takes; None: nothing is known."""
    return median(history[:LEARNED_FROM]) if history else None


def shown(
    at: Situation, *, message: str, parts: tuple[Part, ...] | None = None, history: Sequence[float] = ()
) -> Progress:
    """Where the work stands. `parts` None: those that were shown last."""
    last, step = at.operation.progress, at.steps.at(at.cluster.stage)
    chips = parts if parts is not None else last.parts if last is not None else ()
    usual = expected(history)
    end = None if usual is None or at.steps.undo(step.stage) else at.operation.created_at + usual
    return replace(
        _stepped(at, usual),
        message=message,
        expected_at=end if end is not None and end > at.now else None,
        parts=chips if step.visible else (),
        provider_since=at.cluster.asked_at if step.long else None,
        link=at.place.link if step.visible else "",
    )


def _stepped(at: Situation, usual: float | None) -> Progress:
    step = at.steps.at(at.cluster.stage)
    undo = at.steps.undo(step.stage)
    if undo and at.operation.kind is not Kind.CLUSTER_DELETE:
        return _undone(at)
    since = at.cluster.asked_at if step.long and at.cluster.asked_at is not None else at.cluster.stage_at
    return at_step(
        at.steps.of(step.stage),
        at.steps.number(step.stage),
        since=since,
        expected=usual if step.long else None,
    )


def _undone(at: Situation) -> Progress:
    """It keeps the step in which it was stopped, and its bar stands. What is undone has its own count."""
    last, steps = at.operation.progress, at.steps.delete
    number = min(at.steps.number(at.cluster.stage), len(steps) - 1)
    step = steps[number - 1]
    label = f"Undoing {number}/{len(steps) - 1} · {step.label}"
    shown = at_step(at.steps.create, last.step if last else 1)
    return replace(shown, phase=f"undo_{step.phase}", label=label, percent=last.percent if last else 0.0)


def as_failed(at: Situation, message: str) -> Progress | None:
    """The step in which it was stopped, by its own name, whatever was undone after that."""
    last = at.operation.progress
    if last is None or at.operation.kind is Kind.CLUSTER_DELETE:
        return last
    shown = at_step(at.steps.create, last.step, message=message, parts=last.parts)
    return replace(shown, percent=last.percent, link=last.link)


def step_name(steps: ClusterSteps, stage: str) -> str:
    """For the words of a failure: which step it was."""
    return f"step {steps.number(stage)}/{len(steps.create)}, {steps.at(stage).label}"


def unknown(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Chips of which nothing is known at present, except that they are there."""
    return tuple(
        Part(id=part.id, name=part.name, state=UNKNOWN, tone=Tone.WARNING, detail=part.detail)
        for part in parts
    )
