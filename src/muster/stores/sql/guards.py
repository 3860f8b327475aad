"""The conditions that a write carries, checked in its own transaction.

Owns the four guards: the record's version, the operation's epoch (fence), whether the node's operation is
committed, and whether the template is paused. Each refuses by raising, which undoes the whole write.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol, TypeVar

from muster.domain.errors import Conflict, Paused
from muster.domain.ids import OperationId
from muster.domain.node import OperationGuard
from muster.domain.operation import Fence
from muster.stores.records import lease_lost_error, version_conflict
from muster.stores.sql import statements
from muster.stores.sql.rows import Codec
from muster.stores.sql.tx import Hasty, Params, Row, Tx, judge_row

EVERYTHING = ""
"""How a pause of everything is stored: no template has this name."""
PAUSED = "SELECT 1 FROM pauses WHERE template = :template OR template = :everything"
NOT_PAUSED = f"SELECT 1 WHERE NOT EXISTS ({PAUSED})"
HELD = "SELECT 1 FROM operations WHERE id = :id AND epoch = :epoch"
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
    shown: Params = {"id": fence.operation_id, "epoch": fence.epoch}
    tx.require(HELD + tx.locks.hold, shown, partial(lease_lost_error, fence))
    tx.by = fence.operation_id


def lock_fences(tx: Tx, fences: Sequence[Fence]) -> Mapping[OperationId, int]:
    """Lock the operations that no other transaction holds; return their epochs."""
    return {OperationId(name): epoch for name, epoch in tx.execute(*_epochs(tx, fences))}


def check_fences(tx: Tx, fences: Sequence[Fence]) -> None:
    """Check several fences as `check_fence` does, without a wait. Raises Hasty if one doesn't hold, or if
    another transaction has the row of its operation."""

    def judge(rows: Sequence[Row]) -> None:
        epochs: dict[str, int] = dict(rows)
        if any(epochs.get(fence.operation_id) != fence.epoch for fence in fences):
            raise Hasty

    tx.check(*_epochs(tx, fences), judge)


def _epochs(tx: Tx, fences: Sequence[Fence]) -> tuple[str, Params]:
    ids = [fence.operation_id for fence in fences]
    sql = f"{EPOCHS} ({statements.placeholders('id', len(ids))}){tx.locks.skip}"
    return sql, statements.bind("id", ids)


def check_operation(tx: Tx, guard: OperationGuard | None) -> None:
    if guard is None:
        return
    tx.require(
        _COMMITTED if guard.committed else _STILL_UNCOMMITTED,
        {"id": guard.operation_id},
        partial(_commit_conflict, guard),
    )


def _commit_conflict(guard: OperationGuard) -> Conflict:
    found = "is not committed" if guard.committed else "was committed (or is gone)"
    return Conflict(f"cannot write the node: operation {guard.operation_id} {found}")


def check_not_paused(tx: Tx, template: str) -> None:
    """Refuse a template that was paused before this transaction. One at the same moment may come after it."""
    tx.require(NOT_PAUSED, {"template": template, "everything": EVERYTHING}, partial(Paused, template))


def update(tx: Tx, codec: Codec[R], before: R, after: R) -> None:
    """Write what changed, if the record is still at the version that was read."""
    tx.require(*_update(codec, before, after, "id"), partial(version_conflict, before.id, before.version))


def update_returning(tx: Tx, codec: Codec[R], before: R, after: R, columns: str) -> Row:
    """Write as `update` does. Return these columns of the row, as they are after the write."""
    rows = tx.execute(*_update(codec, before, after, columns))
    judge_row(partial(version_conflict, before.id, before.version), rows)
    return rows[0]


def _update(codec: Codec[R], before: R, after: R, returning: str) -> tuple[str, Params]:
    changes = codec.changed(before, after)
    sql = codec.update(tuple(changes))
    return f"{sql} RETURNING {returning}", {**changes, "id": before.id, "expected": before.version}
