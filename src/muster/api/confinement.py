"""Confine workflows that sign in by themselves to their own repository, run and templates."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

from muster.domain import checks
from muster.domain.errors import Forbidden, NotFound
from muster.domain.ids import OperationId, operation_of
from muster.domain.node import Node
from muster.domain.operation import Operation
from muster.domain.requests import ProvisionRequest, ReleaseRequest, RunRequest
from muster.ports.identity import Confinement
from muster.ports.store import Page, Store


async def confined_request(
    store: Store, request: ProvisionRequest, to: Confinement | None
) -> ProvisionRequest:
    """Return the request as its caller may make it: for its own repository and run. Raises Forbidden."""
    if to is None:
        return request
    to.granting(request.template)
    spec = (await store.template(request.template)).spec
    to.check(request, spec)
    if request.run.lower() != to.run.lower():
        # Under another's name it would stand in the way of what that one does with its own.
        raise Forbidden(f"cannot provision for run {request.run}: this is run {to.run}")
    return replace(request, owner=to.owner)


def scoped_key(key: str | None, to: Confinement | None) -> str | None:
    """Return an idempotency key that no other repository can use. Raises InvalidRequest."""
    if key is None or to is None:
        return key
    checks.text("idempotency_key", key, longest=checks.KEY_MAX)
    named = sha256(f"{to.owner.lower()}:{key}".encode()).hexdigest()
    return f"workflow:{named}"


async def own_operation(
    store: Store, operation_id: str, to: Confinement | None, *, known: Operation | None = None
) -> Operation:
    """Return an operation of the caller. Raises NotFound also for operations of others, so that they stay
    hidden. `known`: any version of it, where the present one doesn't matter."""
    operation = known or await store.operation(OperationId(operation_id))
    if to is not None and await _owner(store, operation) != to.owner:
        raise NotFound("operation", operation_id)
    return operation


def visible_operations(page: Page[Operation], run: str | None, to: Confinement | None) -> Sequence[Operation]:
    """Return what a caller may see of a page. A workflow sees the provisions of its own run. Raises
    Forbidden."""
    if to is None:
        return page.items
    if run is None or run.lower() != to.run.lower():
        raise Forbidden(f"cannot list operations beside those of run {to.run}: name it as `run`")
    return [each for each in page.items if _is_provision_of(each, to.owner)]


def visible_nodes(nodes: Sequence[Node], operation_id: str, to: Confinement | None) -> Sequence[Node]:
    """Return what a caller may see of an operation's nodes.

    A workflow sees the nodes that serve its repository or served it last, without the ids of earlier owners.
    """
    if to is None:
        return nodes
    return [
        replace(
            node,
            launch_id=node.launch_id if operation_of(node.launch_id) == operation_id else None,
            last_owner=node.last_owner if node.last_owner == to.owner else None,
        )
        for node in nodes
        if (node.owner or node.last_owner) == to.owner
    ]


def _is_provision_of(operation: Operation, owner: str) -> bool:
    return isinstance(operation.request, ProvisionRequest) and operation.request.owner == owner


async def _owner(store: Store, operation: Operation) -> str | None:
    match operation.request:
        case ProvisionRequest(owner=owner) | RunRequest(provision=ProvisionRequest(owner=owner)):
            return owner
        case ReleaseRequest(operation_id=target):
            return await _owner(store, await store.operation(target))
        case _:
            return None
