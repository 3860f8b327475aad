"""Submit, cancel and find operations for the desks that accept requests."""

from collections.abc import Awaitable
from dataclasses import replace
from typing import TYPE_CHECKING

from muster.domain import run_decisions
from muster.domain.checks import KEY_MAX, text
from muster.domain.deadlines import Deadline
from muster.domain.errors import Conflict, IdempotencyMismatch, InvalidRequest, StoreUnavailable
from muster.domain.ids import OperationId
from muster.domain.operation import Kind, Operation, cancel_requested
from muster.domain.requests import Request
from muster.domain.settings import Settings
from muster.ports.bundle import Ports
from muster.ports.store import Store
from muster.ports.tracing import CURRENT

if TYPE_CHECKING:
    from muster.operations.driver import Driver

TRIES = 20
"""Each lost try means that the operation moved on; it does so only a few times."""


class Submitter:
    """Submits operations at this replica. One that has room leases them in the same write, and drives them at
    once."""

    def __init__(self, ports: Ports, settings: Settings, owner: str, driver: "Driver") -> None:
        self._ports = ports
        self._settings = settings
        self._owner = owner
        self._driver = driver

    async def answered(
        self, key: str | None, kind: Kind, request: Request | None, *, ours: bool = False
    ) -> Operation | None:
        """Return what was made under the key before, whatever has changed since. Refuse reserved keys of
        callers."""
        if key is None:
            return None
        text("idempotency_key", key, longest=KEY_MAX)
        if not ours and key.startswith(run_decisions.RESERVED):
            rule = f"must not start with {run_decisions.RESERVED!r}"
            raise InvalidRequest("idempotency_key", key, rule)
        first = await self._ports.store.operation_by_key(key)
        if first is None:
            return None
        if first.kind is not kind or (request is not None and first.request != request):
            raise IdempotencyMismatch(key, first.id)
        self._driver.take(first)
        return first

    def new(
        self,
        kind: Kind,
        request: Request,
        deadline: Deadline,
        *,
        template: str | None,
        key: str | None,
        run: str | None = None,
    ) -> Operation:
        """Return an operation to submit, with its id and deadline."""
        now = self._ports.clock.now()
        leased = self._driver.has_room
        return Operation(
            id=OperationId(self._ports.ids.new("op")),
            kind=kind,
            request=request,
            template=template,
            run=run,
            idempotency_key=key,
            created_at=now,
            updated_at=now,
            deadline_at=now + deadline.seconds,
            deadline_source=deadline.source,
            lease_owner=self._owner if leased else None,
            lease_until=now + self._settings.lease if leased else 0.0,
            epoch=1 if leased else 0,
            trace=CURRENT.get(),
        )

    async def submit(self, operation: Operation, write: Awaitable[tuple[Operation, bool]]) -> Operation:
        """Await the write of an operation, and drive what is stored then."""
        try:
            stored, _ = await write
        except StoreUnavailable:
            # It may have been written, leased to us. If so it is driven; if not, there is nothing to drive.
            self._driver.take(operation)
            raise
        self._driver.take(stored)
        return stored


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
