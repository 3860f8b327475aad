"""What a step of the work on a cluster comes to, and when its time is over. Pure.

The provider decides what a step does. This module owns what holds for every provider: whether the work is
stopped, when it is too late, and what a refusal means.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from muster.domain.cluster import Cluster, ClusterPlan, ClusterSteps, Place
from muster.domain.deadlines import HARD
from muster.domain.errors import ProviderError
from muster.domain.ids import InstallationId
from muster.domain.operation import Kind, Operation, Verdict
from muster.domain.progress import Part, Progress, Tone
from muster.domain.progress_view import at_step
from muster.domain.reasons import Reason

UNKNOWN = "unknown"
LEARNED_FROM = 20
"""The last so many creates of a template say how long the next one takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    operation: Operation
    cluster: Cluster
    plan: ClusterPlan
    steps: ClusterSteps
    installation: InstallationId
    now: float
    due_at: float
    """When the operation's deadline counts as passed."""

    @property
    def place(self) -> Place:
        return self.plan.place

    @property
    def overdue(self) -> bool:
        return self.now >= self.due_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """This step is done."""

    note: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)
    """Fields of the cluster's record, written with the next step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Look again after so many seconds."""

    seconds: float
    message: str | None = None
    """None: what is shown stays."""
    parts: tuple[Part, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail:
    verdict: Verdict


Outcome = Done | Wait | Fail


def stopped(operation: Operation) -> bool:
    return operation.cancel_requested_at is not None or operation.verdict is not None


def too_late(at: Situation) -> Fail:
    took = at.now - at.operation.created_at
    message = (
        f"it was not ready {took:.0f} s after it was asked for (deadline from {at.operation.deadline_source})"
    )
    return Fail(verdict=Verdict(reason=Reason.DEADLINE_EXCEEDED, message=message))


def overdue(at: Situation) -> Fail | None:
    """It has to wait again, and there is no more time for that. Work that is done in time is not judged."""
    return too_late(at) if at.overdue else None


def unseen(at: Situation) -> Fail | None:
    """A look failed. Time in which nothing could be seen is no failure, unless the caller said so."""
    return too_late(at) if at.overdue and at.operation.deadline_source == HARD else None


def refused(at: Situation, error: ProviderError) -> Fail:
    """What the provider says, and what that means for this cluster."""
    message = str(error)
    advice = at.plan.advice(error.reason, message)
    if advice:
        message = f"{message}; {advice}"
    return Fail(verdict=Verdict(reason=error.reason, message=message))


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
