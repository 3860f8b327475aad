"""The conditions that a write carries, checked in its own transaction.

Owns the three guards: the record's version, the operation's epoch (fence), and whether the node's operation
is committed. Each refuses by raising, which undoes the whole write.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from muster.domain.errors import Conflict
from muster.domain.ids import OperationId
from muster.domain.node import OperationGuard
from muster.domain.operation import Fence
from muster.stores.records import lease_lost_error, version_conflict
from muster.stores.sql import statements
from muster.stores.sql.rows import Codec
from muster.stores.sql.tx import Row, Tx

EPOCH = "SELECT epoch FROM operations WHERE id = :id"
EPOCHS = "SELECT id, epoch FROM operations WHERE id IN"


class Record(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def version(self) -> int: ...


R = TypeVar("R", bound=Record)


def check_fence(tx: Tx, fence: Fence | None) -> None:
    if fence is None:
        return
    # Held to the end: a takeover waits for this write, or this write sees the takeover.
    rows = tx.execute(EPOCH + tx.locks.hold, {"id": fence.operation_id})
    if not rows or rows[0][0] != fence.epoch:
        raise lease_lost_error(fence)
    tx.by = fence.operation_id


def lock_fences(tx: Tx, fences: Sequence[Fence]) -> Mapping[OperationId, int]:
    """Lock the operations that no other transaction holds; return their epochs."""
    params = {f"id{place}": fence.operation_id for place, fence in enumerate(fences)}
    rows = tx.execute(f"{EPOCHS} ({statements.placeholders('id', len(fences))}){tx.locks.skip}", params)
    return {OperationId(name): epoch for name, epoch in rows}


def check_operation(tx: Tx, guard: OperationGuard | None) -> None:
    if guard is None:
        return
    if guard.committed:  # which stays so: there is nothing to hold
        found = tx.execute(
            "SELECT 1 FROM operations WHERE id = :id AND committed_at IS NOT NULL", {"id": guard.operation_id}
        )
        if not found:
            raise Conflict(f"cannot write the node: operation {guard.operation_id} is not committed")
        return
    # Moving the version makes a commit that judged the node as it was before lose its own guarded write.
    uncommitted = tx.change(
        "UPDATE operations SET version = version + 1 WHERE id = :id AND committed_at IS NULL",
        {"id": guard.operation_id},
    )
    if not uncommitted:
        raise Conflict(f"cannot write the node: operation {guard.operation_id} was committed (or is gone)")


def update(tx: Tx, codec: Codec[R], before: R, after: R, *, returning: str = "id") -> Row:
    """Write what changed, if the record is still at the version that was read.

    Return these columns of the row, as they are after the write.
    """
    changes = codec.changed(before, after)
    sql = codec.update(tuple(changes))
    rows = tx.execute(
        f"{sql} RETURNING {returning}", {**changes, "id": before.id, "expected": before.version}
    )
    if not rows:
        raise version_conflict(before.id, before.version)
    return rows[0]
