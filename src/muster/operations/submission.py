"""Build an accepted operation: id, deadline, and a lease for this replica if it has room."""

from dataclasses import replace

from muster.domain import run_decisions
from muster.domain.deadlines import Deadline
from muster.domain.errors import Conflict, InvalidRequest
from muster.domain.ids import OperationId
from muster.domain.operation import Kind, Operation, cancel_requested
from muster.domain.requests import Request
from muster.domain.settings import Settings
from muster.operations.driver import Driver
from muster.ports.bundle import Ports
from muster.ports.store import Store


def accepted(
    ports: Ports,
    settings: Settings,
    driver: Driver,
    owner: str,
    *,
    kind: Kind,
    request: Request,
    deadline: Deadline,
    template: str | None,
    key: str | None,
    run: str | None = None,
) -> Operation:
    now = ports.clock.now()
    leased = driver.has_room
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
        lease_owner=owner if leased else None,
        lease_until=now + settings.lease if leased else 0.0,
        epoch=1 if leased else 0,
    )


TRIES = 20
"""Each lost try means that the operation moved on; it can't do so for ever."""


async def request_cancel(
    store: Store, operation_id: OperationId, *, now: float, actor: str = ""
) -> Operation:
    """Raises NotCancellable if it is committed or has ended; a second request changes nothing."""
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
    """The provision itself, or that of a run. Raises InvalidRequest, NotFound."""
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
