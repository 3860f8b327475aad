"""Count failures as operators do: one entry per failed node or operation, grouped by cause.

Decides which writes are failures. A node that is released because its operation failed is none. Nor is a
provision or release that a run made for itself: the run is what the operator asked for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from muster.domain.diagnosis import Cause
from muster.domain.diagnosis_rules import ADVICE as CAUSE_ADVICE
from muster.domain.ids import NodeId, OperationId
from muster.domain.lifecycle import NodeState, Verb
from muster.domain.node import NodeChange
from muster.domain.operation import OperationChange, Status
from muster.domain.reasons import ADVICE, Reason
from muster.domain.run_decisions import RESERVED

LocalAdvice = Mapping[str, Mapping[Reason, str]]
FAULTS = frozenset(
    {
        Reason.ATTACH_FAILED,
        Reason.HEARTBEAT_LOST,
        Reason.MACHINE_GONE,
        Reason.PROVIDER_ERROR,
        Reason.MAX_RUNTIME,
        Reason.RELEASE_TIMEOUT,
        Reason.DUPLICATE_JOIN,
        Reason.ORPHAN,
        Reason.INTERRUPTED,
        Reason.INTERNAL,
    }
)
"""Why a node may be condemned that is a failure; the other reasons are the order of things."""
ORDERLY = (Reason.RETIRED, Reason.OPERATOR, Reason.CANCELLED)
"""Why a wanted operation may end early."""
DETAIL_MAX = 300


class Failed(StrEnum):
    NODE = "node"
    OPERATION = "operation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    id: str
    """Of the node or operation that failed: each is counted once."""
    what: Failed
    at: float
    reason: Reason
    cause: Cause | None = None
    """What its diagnosis says; None before that, or if there is none."""
    template: str | None
    revision: int | None
    node_id: NodeId | None
    """Itself, or whose failure it was."""
    operation_id: OperationId | None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Failures of one cause and one template revision."""

    cause: str
    diagnosed: bool
    reason: Reason
    template: str | None
    revision: int | None
    nodes: int
    operations: int
    first_at: float
    last_at: float
    node_id: NodeId | None
    """The newest example."""
    operation_id: OperationId | None
    detail: str
    advice: str
    local: bool = False
    """Its nodes are processes of the server's machine."""

    @property
    def count(self) -> int:
        """Return the number of failed nodes; of operations, if only those failed."""
        return self.nodes or self.operations


def of_node(change: NodeChange) -> Failure | None:
    node, reason = change.after, change.after.reason
    if reason is None or not _at_fault(change, reason):
        return None
    return Failure(
        id=node.id,
        what=Failed.NODE,
        at=change.at,
        reason=reason,
        template=node.template,
        revision=node.revision,
        node_id=node.id,
        operation_id=node.operation_id,
        detail=node.detail[:DETAIL_MAX],
    )


def _at_fault(change: NodeChange, reason: Reason) -> bool:
    if change.name is Verb.FAIL:
        return True
    condemned = change.after.state is NodeState.TERMINATING and change.name in (Verb.CONDEMN, Verb.ADOPT)
    already = change.before is not None and change.before.state is NodeState.FAILED
    return condemned and not already and not change.rolled_back and reason in FAULTS


def of_operation(change: OperationChange) -> Failure | None:
    operation, verdict = change.after, change.after.verdict
    if operation.status is not Status.FAILED or verdict is None or verdict.reason in ORDERLY:
        return None
    if (operation.idempotency_key or "").startswith(RESERVED):
        return None
    return Failure(
        id=operation.id,
        what=Failed.OPERATION,
        at=operation.ended_at or operation.updated_at,
        reason=verdict.reason,
        template=operation.template,
        revision=None,
        node_id=verdict.node_id,
        operation_id=operation.id,
        detail=verdict.message.partition("\n")[0][:DETAIL_MAX],
    )


def grouped(failures: Sequence[Failure], *, local: LocalAdvice | None = None) -> tuple[Group, ...]:
    """Most frequent first, then newest. An operation stands with the node whose failure it was. `local`: the
    templates whose nodes are on the server's own machine, and what their provider advises."""
    nodes = {each.id: each for each in failures if each.what is Failed.NODE}
    members: dict[tuple[str, str | None, int | None], list[Failure]] = {}
    for each in failures:
        told = nodes.get(each.node_id or "", each)
        key = (_cause(told), told.template, told.revision if told.revision is not None else each.revision)
        members.setdefault(key, []).append(each)
    groups = [
        _group(cause, template, rev, some, local=(local or {}).get(template or ""))
        for (cause, template, rev), some in members.items()
    ]
    return tuple(sorted(groups, key=lambda group: (-group.count, -group.last_at, group.cause)))


def _known(failure: Failure) -> Cause | None:
    return None if failure.cause is Cause.UNKNOWN else failure.cause


def _cause(failure: Failure) -> str:
    return str(_known(failure) or failure.reason)


def _group(
    cause: str,
    template: str | None,
    revision: int | None,
    members: list[Failure],
    *,
    local: Mapping[Reason, str] | None,
) -> Group:
    newest = sorted(members, key=lambda each: (each.at, each.id), reverse=True)
    told = next((each for each in newest if each.what is Failed.NODE), newest[0])
    known = _known(told)
    by_reason = (local or {}).get(told.reason) or ADVICE[told.reason]
    return Group(
        cause=cause,
        diagnosed=known is not None,
        reason=told.reason,
        template=template,
        revision=revision,
        nodes=sum(each.what is Failed.NODE for each in members),
        operations=sum(each.what is Failed.OPERATION for each in members),
        first_at=newest[-1].at,
        last_at=newest[0].at,
        node_id=next((each.node_id for each in newest if each.node_id), None),
        operation_id=next((each.operation_id for each in newest if each.operation_id), None),
        detail=told.detail,
        advice=CAUSE_ADVICE[known] if known is not None else by_reason,
        local=local is not None,
    )
