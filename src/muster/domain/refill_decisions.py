"""Decide what a refill does next: make warm nodes, accept partial capacity, pool what boots."""

from collections.abc import Sequence
from dataclasses import dataclass

from muster.domain.deadlines import later_deadline
from muster.domain.decisions import CallProvider, ExtendDeadline, Finish, Wait
from muster.domain.launch import Launch, LaunchState, again_at, next_usage
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Operation, Status, Verdict
from muster.domain.reasons import Reason
from muster.domain.requests import RefillRequest
from muster.domain.template import Template, UsageClass


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    operation: Operation
    request: RefillRequest
    template: Template
    """The current revision."""
    nodes: Sequence[Node]
    launches: Sequence[Launch]
    now: float
    grace_until: float = 0.0
    """Its deadline doesn't count as passed before this: no replica watched for a while."""

    @property
    def due_at(self) -> float:
        return max(self.operation.deadline_at, self.grace_until)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launching:
    count: int
    usage_class: UsageClass


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolIn:
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Discard:
    """Condemn nodes that are not up, and abandon launches that were never called."""

    nodes: tuple[Node, ...]
    launches: tuple[Launch, ...]
    reason: Reason


Action = Launching | CallProvider | ExtendDeadline | PoolIn | Discard | Finish | Wait


def decide(at: Situation) -> Action:
    up = tuple(node for node in at.nodes if node.state is NodeState.CREATED and node.up)
    until = later_deadline(at.operation, at.nodes, at.template.spec)
    if until is not None and at.operation.verdict is None:
        return ExtendDeadline(until=until)
    stopped = _stopped(at)
    if up and (stopped is None or stopped.reason is not Reason.RETIRED):
        return PoolIn(nodes=up)
    if stopped is not None:
        return _undo(at, stopped)
    pending = [launch for launch in at.launches if launch.pending]
    if pending:
        return CallProvider(launch=pending[0])
    if any(node.state is NodeState.CREATED for node in at.nodes):
        return Wait()
    usage = next_usage(at.template.spec.usage, at.launches)
    if usage is not None and all(launch.reason and not launch.adopted for launch in at.launches):
        until = again_at(at.launches)
        if at.now < until:
            return Wait(until=until)
        return Launching(count=at.request.count, usage_class=usage)
    return _finished(at)


def _stopped(at: Situation) -> Verdict | None:
    operation = at.operation
    if operation.verdict is not None:
        return operation.verdict
    if operation.cancel_requested_at is not None:
        return Verdict(reason=Reason.CANCELLED, message="the refill was cancelled")
    if at.request.revision < at.template.revision:
        return Verdict(reason=Reason.RETIRED, message="the template changed while the refill ran")
    if at.now >= at.due_at:
        return Verdict(reason=Reason.DEADLINE_EXCEEDED, message="some nodes did not boot in time")
    return None


def _undo(at: Situation, verdict: Verdict) -> Action:
    created = tuple(node for node in at.nodes if node.state is NodeState.CREATED)
    planned = tuple(launch for launch in at.launches if launch.state is LaunchState.PLANNED)
    if created or planned:
        return Discard(nodes=created, launches=planned, reason=verdict.reason)
    status = Status.CANCELLED if verdict.reason is Reason.CANCELLED else Status.FAILED
    return Finish(status=status, verdict=verdict)


def _finished(at: Situation) -> Finish:
    """Finish: success if anything was made. Pooled nodes are unbound, so nodes that are still bound were
    lost."""
    lost = len(at.nodes)
    made = sum(launch.adopted for launch in at.launches)
    if made > lost:
        return Finish(status=Status.SUCCEEDED)
    last = at.launches[-1]
    node_reason = at.nodes[0].reason if at.nodes else None
    reason = last.reason or node_reason or Reason.INTERNAL
    message = last.message or "no warm node was made"
    return Finish(status=Status.FAILED, verdict=Verdict(reason=reason, message=message))
