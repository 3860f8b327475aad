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
from muster.domain.template import TemplateSpec
from muster.domain.trust import Confinement
from muster.domain.workflow import Workflow
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
    _check_bounds(request, spec)
    if request.run.lower() != to.run.lower():
        # Under another's name it would stand in the way of what that one does with its own.
        raise Forbidden(f"cannot provision for run {request.run}: this is run {to.run}")
    if request.workflow is not None:
        _check_run(request.workflow, to)
    return replace(request, owner=to.repository)


def scoped_key(key: str | None, to: Confinement | None) -> str | None:
    """Return an idempotency key that no other repository can use. Raises InvalidRequest."""
    if key is None or to is None:
        return key
    checks.text("idempotency_key", key, longest=checks.KEY_MAX)
    named = sha256(f"{to.repository.lower()}:{key}".encode()).hexdigest()
    return f"workflow:{named}"


def _check_bounds(request: ProvisionRequest, spec: TemplateSpec) -> None:
    """Refuse runners without a workflow, which could have any label, and runs longer than the template
    allows."""
    if spec.kitted and request.workflow is None:
        raise Forbidden(
            f"cannot provision runners of {spec.name} without `workflow`: "
            "a workflow gets runners for its own run only, so it must name that"
        )
    if request.max_runtime is not None and request.max_runtime > spec.max_runtime:
        raise Forbidden(
            f"cannot provision {spec.name} for {request.max_runtime:g} s: workflows get at most the "
            f"{spec.max_runtime:g} s of the template, whose max_runtime an operator may raise"
        )


def _check_run(workflow: Workflow, to: Confinement) -> None:
    asked = (workflow.repository.lower(), workflow.run_id, workflow.attempt)
    if asked != (to.repository.lower(), to.run_id, to.attempt):
        raise Forbidden(
            f"cannot provision for run {workflow.run_id}-{workflow.attempt} of {workflow.repository}: "
            f"this is run {to.run_id}-{to.attempt} of {to.repository}"
        )
    if workflow.label.partition("-")[0] != str(to.run_id):
        # Another run's label would get us its jobs.
        rule = f"it must be {to.run_id}, or begin with {to.run_id}-"
        raise Forbidden(f"cannot give out the label {workflow.label}: {rule}")


async def own_operation(store: Store, operation_id: str, to: Confinement | None) -> Operation:
    """Return an operation of the caller. Raises NotFound also for operations of others, so that they stay
    hidden."""
    operation = await store.operation(OperationId(operation_id))
    if to is not None and await _owner(store, operation) != to.repository:
        raise NotFound("operation", operation_id)
    return operation


def visible_operations(page: Page[Operation], run: str | None, to: Confinement | None) -> Sequence[Operation]:
    """Return what a caller may see of a page. A workflow sees the provisions of its own run. Raises
    Forbidden."""
    if to is None:
        return page.items
    if run is None or run.lower() != to.run.lower():
        raise Forbidden(f"cannot list operations beside those of run {to.run}: name it as `run`")
    return [each for each in page.items if _is_provision_of(each, to.repository)]


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
            last_owner=node.last_owner if node.last_owner == to.repository else None,
        )
        for node in nodes
        if (node.owner or node.last_owner) == to.repository
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
