"""Build, cancel and find operations for the desks that accept requests."""

from dataclasses import replace

from muster.domain import run_decisions
from muster.domain.deadlines import Deadline
from muster.domain.errors import Conflict, InvalidRequest
from muster.domain.ids import OperationId
from muster.domain.operation import Kind, Operation, cancel_requested
from muster.domain.requests import Request
from muster.domain.settings import Settings
from muster.ports.bundle import Ports
from muster.ports.store import Store
from muster.ports.tracing import CURRENT

TRIES = 20
"""Each lost try means that the operation moved on; it does so only a few times."""


def new_operation(
    ports: Ports,
    settings: Settings,
    *,
    lease_owner: str | None,
    kind: Kind,
    request: Request,
    deadline: Deadline,
    template: str | None,
    key: str | None,
    run: str | None = None,
) -> Operation:
    """Return an operation to submit, with its id and deadline. `lease_owner` drives it; None: any replica."""
    now = ports.clock.now()
    leased = lease_owner is not None
    return Operation(
        id=OperationId(ports.ids.new("op")),
        kind=kind,
        request=request,
        template=template,
        run=run,
        idempotency_key=key,
        created_at=now,
        updated_at=now,
        deadline_at=now + deadline.seconds,
        deadline_source=deadline.source,
        lease_owner=lease_owner,
        lease_until=now + settings.lease if leased else 0.0,
        epoch=1 if leased else 0,
        trace=CURRENT.get(),
    )


async def request_cancel(
    store: Store, operation_id: OperationId, *, now: float, actor: str = ""
) -> Operation:
    """Ask an operation to stop. The request and the commit compete for one guarded write.

    A second request changes nothing. Raises NotCancellable if the operation is committed or has ended.
    """
    for attempt in range(TRIES):
        operation = await store.operation(operation_id)
        change = cancel_requested(operation, now=now)
        if change is None:
            return operation
        try:
            return await store.write_operation(replace(change, actor=actor))
        except Conflict:
            if attempt == TRIES - 1:
                raise
    raise AssertionError("unreachable")


async def provision_of(store: Store, operation_id: OperationId) -> Operation:
    """Return the provision that holds the nodes of an operation: the operation itself, or that of a run.

    Raises InvalidRequest or NotFound.
    """
    operation = await store.operation(operation_id)
    if operation.kind is Kind.PROVISION:
        return operation
    if operation.kind is not Kind.RUN:
        rule = f"must be a provision or a run, not a {operation.kind}"
        raise InvalidRequest("operation_id", operation_id, rule)
    made = await store.operation_by_key(run_decisions.provision_key(operation_id))
    if made is None:
        rule = "it has asked for no nodes" if operation.ended else "it has no nodes yet: wait for it"
        raise InvalidRequest("operation_id", operation_id, rule)
    return made
