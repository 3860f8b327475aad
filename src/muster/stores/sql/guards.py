"""The conditions that a write carries, checked in its own transaction.

Owns the three guards: the record's version, the operation's epoch (fence), and whether the node's operation
is committed. Each refuses by raising, which undoes the whole write.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol, TypeVar

from muster.domain.errors import Conflict
from muster.domain.ids import OperationId
from muster.domain.node import OperationGuard
from muster.domain.operation import Fence
from muster.stores.records import lease_lost_error, version_conflict
from muster.stores.sql import statements
from muster.stores.sql.rows import Codec
from muster.stores.sql.tx import Params, Row, Tx

EPOCH = "SELECT epoch FROM operations WHERE id = :id"
EPOCHS = "SELECT id, epoch FROM operations WHERE id IN"
_COMMITTED = "SELECT 1 FROM operations WHERE id = :id AND committed_at IS NOT NULL"
"""Which stays so: there is nothing to hold."""
_STILL_UNCOMMITTED = """
    UPDATE operations SET version = version + 1 WHERE id = :id AND committed_at IS NULL RETURNING id
"""
"""Moves the version, so that a commit which judged the node as it was before loses its own guarded write."""


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
    tx.check(EPOCH + tx.locks.hold, {"id": fence.operation_id}, partial(_judge_epoch, fence))
    tx.by = fence.operation_id


def _judge_epoch(fence: Fence, rows: Sequence[Row]) -> None:
    if not rows or rows[0][0] != fence.epoch:
        raise lease_lost_error(fence)


def lock_fences(tx: Tx, fences: Sequence[Fence]) -> Mapping[OperationId, int]:
    """Lock the operations that no other transaction holds; return their epochs."""
    params = {f"id{place}": fence.operation_id for place, fence in enumerate(fences)}
    rows = tx.execute(f"{EPOCHS} ({statements.placeholders('id', len(fences))}){tx.locks.skip}", params)
    return {OperationId(name): epoch for name, epoch in rows}


def check_operation(tx: Tx, guard: OperationGuard | None) -> None:
    if guard is None:
        return
    tx.check(
        _COMMITTED if guard.committed else _STILL_UNCOMMITTED,
        {"id": guard.operation_id},
        partial(_judge_commit, guard),
    )


def _judge_commit(guard: OperationGuard, rows: Sequence[Row]) -> None:
    if not rows:
        found = "is not committed" if guard.committed else "was committed (or is gone)"
        raise Conflict(f"cannot write the node: operation {guard.operation_id} {found}")


def update(tx: Tx, codec: Codec[R], before: R, after: R) -> None:
    """Write what changed, if the record is still at the version that was read."""
    tx.check(*_update(codec, before, after, "id"), partial(_judge_version, before))


def update_returning(tx: Tx, codec: Codec[R], before: R, after: R, columns: str) -> Row:
    """Write as `update` does. Return these columns of the row, as they are after the write."""
    rows = tx.execute(*_update(codec, before, after, columns))
    _judge_version(before, rows)
    return rows[0]


def _update(codec: Codec[R], before: R, after: R, returning: str) -> tuple[str, Params]:
    changes = codec.changed(before, after)
    sql = codec.update(tuple(changes))
    return f"{sql} RETURNING {returning}", {**changes, "id": before.id, "expected": before.version}


def _judge_version(before: Record, rows: Sequence[Row]) -> None:
    if not rows:
        raise version_conflict(before.id, before.version)
