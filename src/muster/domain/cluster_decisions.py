"""What a step of the work on a cluster comes to, and when its time is over. Pure.

The provider decides what a step does. This module owns what holds for every provider: whether the work is
stopped, when it is too late, and what a refusal means.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.domain.cluster import Cluster, ClusterPlan, ClusterSteps, Place
from muster.domain.deadlines import HARD
from muster.domain.errors import ProviderError
from muster.domain.ids import InstallationId
from muster.domain.operation import Operation, Verdict
from muster.domain.progress import Part
from muster.domain.reasons import Reason


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
