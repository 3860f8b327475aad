"""Ask an operation to stop. The request and the commit compete for one guarded write."""

from dataclasses import replace

from muster.domain.errors import Conflict
from muster.domain.ids import OperationId
from muster.domain.operation import Operation, cancel_requested
from muster.ports.store import Store

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
