"""The conditions that a write carries on its operation, in one action of the transaction.

Owns how the fence (the epoch) and the commit are asked for. An operation that is written, checked or guarded
is one item, so all that is asked of it goes into one action.
"""

from collections.abc import Sequence

from muster.domain.errors import Conflict
from muster.domain.node import OperationGuard
from muster.domain.operation import Fence
from muster.stores.dynamodb import keys
from muster.stores.dynamodb.values import Item, Refusal, Value, whole
from muster.stores.dynamodb.writes import Write
from muster.stores.records import lease_lost_error

EPOCH = "#epoch = :epoch"


def held_by(fence: Fence, item: Item | None) -> bool:
    return item is not None and whole(item, "epoch") == fence.epoch


def check_fence(write: Write, fence: Fence | None) -> None:
    check_all(write, fence, ())


def check_all(write: Write, fence: Fence | None, guards: Sequence[OperationGuard]) -> None:
    """Ask for the fence, and once for each operation's guard."""
    by_operation = {guard.operation_id: guard for guard in guards}
    if fence is not None:
        write.by = fence.operation_id
        if fence.operation_id not in by_operation:
            check_epoch(write, fence, lease_lost_error(fence))
    for operation_id, guard in by_operation.items():
        _guard(write, guard, fence if fence is not None and fence.operation_id == operation_id else None)


def check_epoch(write: Write, fence: Fence, refused: Exception) -> None:
    key = keys.operation(fence.operation_id)
    write.check(key, EPOCH, {"epoch": fence.epoch}, lambda _item: refused)


def _guard(write: Write, guard: OperationGuard, fence: Fence | None) -> None:
    key = keys.operation(guard.operation_id)
    values: dict[str, Value] = {"committed": guard.committed}
    where = "#committed = :committed"
    if fence is not None:
        where, values = f"{where} AND {EPOCH}", {**values, "epoch": fence.epoch}
    refused = _refusal(guard, fence)
    if guard.committed:
        write.check(key, where, values, refused)
    else:
        # Moving the version makes a commit that judged the node as it was before lose its own guarded write.
        write.update(key, "ADD #v :one", {**values, "one": 1}, where=where, refused=refused)


def _refusal(guard: OperationGuard, fence: Fence | None) -> Refusal:
    def refused(item: Item | None) -> Exception:
        if fence is not None and not held_by(fence, item):
            return lease_lost_error(fence)
        state = "is not committed" if guard.committed else "was committed (or is gone)"
        return Conflict(f"cannot write the node: operation {guard.operation_id} {state}")

    return refused
