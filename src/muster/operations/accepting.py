"""Build an accepted operation: id, deadline, and a lease for this replica if it has room."""

from muster.domain.deadlines import Deadline
from muster.domain.ids import OperationId
from muster.domain.operation import Kind, Operation
from muster.domain.requests import Request
from muster.domain.settings import Settings
from muster.operations.driver import Driver
from muster.ports.bundle import Ports


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
