"""Build what every store writes in the same way: claims, boots, lost leases, requests of operations.

This module owns what depends on records alone, not on an engine. Add a new field that a claim sets to
`claimed`, and to the statement in `sql.claims`. A test compares the two.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Protocol

from muster.domain.boot import Boot, Mark, spans
from muster.domain.command import Command
from muster.domain.errors import Conflict, IdempotencyMismatch, LeaseLost, StoreUnavailable
from muster.domain.events import Draft, Entity
from muster.domain.ids import OperationId
from muster.domain.launch import Launch
from muster.domain.lifecycle import NodeState, Verb
from muster.domain.node import Binding, Node, NodeChange
from muster.domain.operation import Fence, Kind, Operation, OperationChange
from muster.domain.requests import (
    ClusterCreateRequest,
    ClusterDeleteRequest,
    ProvisionRequest,
    RefillRequest,
    ReleaseRequest,
    Request,
    RunRequest,
)


class CompletionSteps(Protocol):
    """A store, as far as `complete_in_steps` needs one."""

    async def write_operation(
        self, change: OperationChange, *, fence: Fence | None = ..., clock: Callable[[], float] | None = ...
    ) -> Operation: ...

    async def apply_all(
        self, changes: Sequence[NodeChange], *, fence: Fence | None = ...
    ) -> Sequence[Node]: ...


async def complete_in_steps(
    store: CompletionSteps,
    commit: OperationChange,
    handed_over: Sequence[NodeChange],
    end: OperationChange,
    *,
    fence: Fence,
    clock: Callable[[], float],
) -> Operation:
    """Do what `Store.complete` promises where no transaction holds so many records."""
    await store.write_operation(commit, fence=fence, clock=clock)
    await store.apply_all(handed_over, fence=fence)
    return await store.write_operation(end, fence=fence)


MAX_NODES = 100
"""The cap of a new installation: high enough to try things, low enough to bound a mistake's bill."""
REQUESTS: dict[str, type[Request]] = {
    Kind.PROVISION.value: ProvisionRequest,
    Kind.RELEASE.value: ReleaseRequest,
    Kind.REFILL.value: RefillRequest,
    Kind.RUN.value: RunRequest,
    Kind.CLUSTER_CREATE.value: ClusterCreateRequest,
    Kind.CLUSTER_DELETE.value: ClusterDeleteRequest,
}
"""The kinds of operations that this program knows, and the class of each one's request.

During a rolling upgrade a newer replica may write a kind that this one doesn't know. Such an operation is
left out of lists, is driven by others, and can't be shown by itself.
"""
CLAIM_FIELDS = (
    "state", "version", "entered_at", "deadline_at", "deadline_source", "operation_id", "assignment_id",
    "run", "owner", "attached_at", "reason",
)  # fmt: skip
"""What a claim sets of a node."""
_claim_values = attrgetter(*CLAIM_FIELDS)


def request_class(kind: str) -> type[Request]:
    """Return the class of a kind's request. Raises StoreUnavailable for an unknown kind: another replica
    knows it."""
    if kind not in REQUESTS:
        why = (
            f"the operation is of kind {kind!r}, which this version of Muster doesn't know;"
            " ask a replica that was upgraded already"
        )
        raise StoreUnavailable(f"cannot read an operation: {why}", why=why)
    return REQUESTS[kind]


def not_the_holder(duty: str, owner: str) -> Conflict:
    return Conflict(f"cannot move the bookmark of {duty}: {owner} does not hold that duty")


def same_request(first: Operation, asked: Operation) -> Operation:
    """Return the operation that has the key already. Raises IdempotencyMismatch if it asks for more."""
    if first.kind is not asked.kind or first.request != asked.request:
        raise IdempotencyMismatch(first.idempotency_key or "", first.id)
    return first


def claimed(node: Node, binding: Binding, *, now: float, deadline_at: float) -> Node:
    return replace(
        node,
        state=NodeState.CLAIMED,
        version=node.version + 1,
        entered_at=now,
        deadline_at=deadline_at,
        deadline_source="attach_timeout",
        operation_id=binding.operation_id,
        assignment_id=binding.assignment_id,
        run=binding.run,
        owner=binding.owner,
        attached_at=None,
        reason=None,
    )


def of_claim(node: Node) -> Draft:
    """Return the event of a claim, which names what a claim sets."""
    return Draft(
        entity=Entity.NODE,
        entity_id=node.id,
        version=node.version,
        name=Verb.CLAIM.value,
        changes=dict(zip(CLAIM_FIELDS, _claim_values(node), strict=True)) | {"state": node.state.value},
    )


def boot_of(node: Node, marks: Sequence[Mark]) -> Boot:
    """Return how the boot of a node that is up went."""
    until = node.booted_at or node.created_at
    return Boot(
        node_id=node.id,
        template=node.template,
        revision=node.revision,
        instance_type=node.instance_type,
        booted_at=until,
        seconds=until - node.created_at,
        phases=spans(node.created_at, marks, until),
    )


def operations_of(change: NodeChange) -> tuple[OperationId, ...]:
    """Return the operations that the change of a node concerns."""
    before = change.before.operation_id if change.before else None
    return tuple(dict.fromkeys(each for each in (before, change.after.operation_id) if each is not None))


def launch_written_at(after: Launch) -> float:
    return max(time for time in (after.created_at, after.called_at, after.closed_at) if time is not None)


def command_written_at(after: Command) -> float:
    times = (after.created_at, after.started_at, after.cancel_requested_at, after.ended_at)
    return max(time for time in times if time is not None)


def version_conflict(name: str, version: int) -> Conflict:
    return Conflict(f"cannot write {name}: it has moved on from version {version}; read it again")


def lease_lost_error(fence: Fence) -> LeaseLost:
    return LeaseLost(
        f"cannot write for operation {fence.operation_id}: its lease was taken over"
        f" (epoch {fence.epoch} is not the present one); stop driving it"
    )


def device_over(user_code: str) -> Conflict:
    return Conflict(f"cannot settle the code {user_code}: it was settled before, or has expired; log in anew")
