"""Resolve a run or operation to the provision that has its nodes."""

from muster.domain import running
from muster.domain.errors import InvalidRequest
from muster.domain.ids import OperationId
from muster.domain.operation import Kind, Operation
from muster.ports.store import Store


async def provision_of(store: Store, operation_id: OperationId) -> Operation:
    """The provision itself, or that of a run. Raises InvalidRequest, NotFound."""
    operation = await store.operation(operation_id)
    if operation.kind is Kind.PROVISION:
        return operation
    if operation.kind is not Kind.RUN:
        rule = f"must be a provision or a run, not a {operation.kind}"
        raise InvalidRequest("operation_id", operation_id, rule)
    made = await store.operation_by_key(running.provision_key(operation_id))
    if made is None:
        rule = "it has asked for no nodes" if operation.ended else "it has no nodes yet: wait for it"
        raise InvalidRequest("operation_id", operation_id, rule)
    return made
