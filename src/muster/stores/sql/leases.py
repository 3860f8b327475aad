"""Leases: who drives an operation, and who holds a periodic duty, until when; and which replicas live.

Owns the lease columns of operations, the duties and the replicas' signs of life. A lease never moves an
operation's version: it says who may write, not what was done. Every lease taken raises the epoch, which
is what fences the earlier holder.
"""

from collections.abc import Sequence
from functools import lru_cache

from muster.domain.events import of_takeover
from muster.domain.ids import OperationId
from muster.domain.operation import Fence, Kind, Operation
from muster.ports.store import LASTING, Cursor, DutyLease
from muster.stores.records import not_the_holder
from muster.stores.sql import events, operations
from muster.stores.sql.rows import OPERATION
from muster.stores.sql.tx import Tx, Value

LOCK = "/* lock */"
"""Where an engine whose transactions run side by side says how it holds the rows."""
# Kinds that only a newer version knows are left to it.
_KNOWN = ", ".join(f"'{kind.value}'" for kind in Kind)
# Replicas ask every two seconds, and mostly no lease has lapsed: a read costs them less than the update.
LAPSED = f"""
    SELECT 1 FROM operations WHERE ended_at IS NULL AND lease_until <= :now AND kind IN ({_KNOWN}) LIMIT 1
"""
# Materialized: a plan that looked for the due ones more than once would take more than it was asked to.
LEASE = f"""
    WITH due AS MATERIALIZED (
        SELECT id FROM operations WHERE ended_at IS NULL AND lease_until <= :now AND kind IN ({_KNOWN})
        ORDER BY created_at, id LIMIT :limit {LOCK}
    )
    UPDATE operations SET lease_owner = :owner, lease_until = :until, epoch = epoch + 1
    WHERE id IN (SELECT id FROM due)
    RETURNING {OPERATION.select}
"""
_ALIVE = """
    INSERT INTO replicas (owner, seen_at) VALUES (:owner, :now)
    ON CONFLICT (owner) DO UPDATE SET seen_at = excluded.seen_at WHERE replicas.seen_at < excluded.seen_at
"""
_ABSENT = "SELECT owner FROM replicas WHERE seen_at < :absent_since LIMIT 1"
# What stands in a queue holds up those behind it, so it doesn't wait until the lease of a dead owner lapses.
# All else waits for longer, and not for a lease that is long, or was prolonged for a call.
ABANDONED = f"""
    WITH due AS MATERIALIZED (
        SELECT id FROM operations
        WHERE ended_at IS NULL AND lease_until > :now AND kind IN ({_KNOWN})
          AND lease_owner IN (
            SELECT owner FROM replicas WHERE seen_at < :absent_since
              AND (operations.queued_since IS NOT NULL OR seen_at < :gone_since)
          )
        ORDER BY created_at, id LIMIT :limit {LOCK}
    )
    UPDATE operations SET lease_owner = :owner, lease_until = :until, epoch = epoch + 1
    WHERE id IN (SELECT id FROM due)
    RETURNING {OPERATION.select}
"""
_FORGET = """
    DELETE FROM replicas WHERE seen_at < :absent_since AND NOT EXISTS (
        SELECT 1 FROM operations
        WHERE ended_at IS NULL AND lease_owner = replicas.owner AND lease_until > :now
    )
"""
_SEIZE = f"""
    UPDATE operations SET lease_owner = :owner, lease_until = :until, epoch = epoch + 1
    WHERE id = :id AND ended_at IS NULL
    RETURNING {OPERATION.select}
"""
_EXPIRE = """
    UPDATE operations SET lease_owner = NULL, lease_until = 0
    WHERE ended_at IS NULL AND lease_owner IS NOT NULL
"""
_OWNED = "lease_owner = :owner"
_HELD_BY_OTHERS = "SELECT name FROM duties WHERE lease_until > :now AND lease_owner <> :owner"
_BOOKMARK = "SELECT bookmark FROM duties WHERE name = :name"
_MOVE_BOOKMARK = "UPDATE duties SET bookmark = :cursor WHERE name = :name AND lease_owner = :owner"
_EXPIRE_DUTIES = f"UPDATE duties SET lease_until = 0 WHERE substr(name, 1, {len(LASTING)}) <> '{LASTING}'"
_RENEWED_AT_ONCE = 500


def lease(
    tx: Tx,
    owner: str,
    *,
    now: float,
    until: float,
    limit: int,
    absent_since: float | None = None,
    gone_since: float | None = None,
) -> Sequence[Operation]:
    params: dict[str, Value] = {"owner": owner, "now": now, "until": until, "limit": limit}
    taken: list[Operation] = []
    if limit and tx.execute(LAPSED, {"now": now}):
        taken += OPERATION.all(tx.execute(LEASE.replace(LOCK, tx.locks.skip), params))
    if absent_since is not None:
        tx.change(_ALIVE, {"owner": owner, "now": now})
        silences: dict[str, Value] = {"absent_since": absent_since, "gone_since": gone_since}
        taken += _abandoned(tx, {**params, **silences, "limit": limit - len(taken)})
    taken.sort(key=lambda operation: (operation.created_at, operation.id))
    for operation in taken:
        if operation.epoch > 1:
            events.append(tx, of_takeover(operation), at=now)
    return taken


def _abandoned(tx: Tx, params: dict[str, Value]) -> list[Operation]:
    absent = {"absent_since": params["absent_since"]}
    if not tx.execute(_ABSENT, absent):
        return []
    rows = tx.execute(ABANDONED.replace(LOCK, tx.locks.skip), params)
    tx.change(_FORGET, {**absent, "now": params["now"]})
    return [OPERATION.decode(row) for row in rows]


def seize(tx: Tx, operation_id: OperationId, owner: str, *, now: float, until: float) -> Operation:
    rows = tx.execute(_SEIZE, {"id": operation_id, "owner": owner, "until": until})
    if not rows:
        return operations.get(tx, operation_id)
    taken = OPERATION.decode(rows[0])
    if taken.epoch > 1:
        events.append(tx, of_takeover(taken), at=now)
    return taken


@lru_cache(maxsize=64)
def renewal(count: int) -> str:
    values = ", ".join(f"(:id{index}, :epoch{index})" for index in range(count))
    return f"""
        WITH held (id, epoch) AS (VALUES {values})
        UPDATE operations SET lease_until = :until FROM held
        WHERE operations.id = held.id AND operations.epoch = held.epoch
          AND operations.lease_owner = :owner AND operations.ended_at IS NULL
        RETURNING operations.id, operations.epoch
    """


def renew(tx: Tx, owner: str, fences: Sequence[Fence], *, until: float) -> Sequence[Fence]:
    renewed: dict[Fence, None] = {}
    for start in range(0, len(fences), _RENEWED_AT_ONCE):
        chunk = fences[start : start + _RENEWED_AT_ONCE]
        params: dict[str, Value] = {"owner": owner, "until": until}
        for index, fence in enumerate(chunk):
            params[f"id{index}"], params[f"epoch{index}"] = fence.operation_id, fence.epoch
        for operation_id, epoch in tx.execute(renewal(len(chunk)), params):
            renewed[Fence(operation_id=OperationId(operation_id), epoch=epoch)] = None
    return [fence for fence in fences if fence in renewed]


def expire(tx: Tx, owner: str | None = None) -> int:
    if owner is None:
        tx.change("DELETE FROM replicas")
        tx.change(_EXPIRE_DUTIES)
        return tx.change(_EXPIRE)
    tx.change("DELETE FROM replicas WHERE owner = :owner", {"owner": owner})
    tx.change(f"{_EXPIRE_DUTIES} AND {_OWNED}", {"owner": owner})
    return tx.change(f"{_EXPIRE} AND {_OWNED}", {"owner": owner})


@lru_cache(maxsize=64)
def duties(count: int) -> str:
    values = ", ".join(
        f"(:name{index}, :owner, :until{index}, :ticked{index}, :problem{index})" for index in range(count)
    )
    return f"""
        INSERT INTO duties (name, lease_owner, lease_until, ticked_at, problem) VALUES {values}
        ON CONFLICT (name) DO UPDATE SET
            lease_owner = excluded.lease_owner, lease_until = excluded.lease_until,
            ticked_at = coalesce(excluded.ticked_at, duties.ticked_at), problem = excluded.problem
        WHERE duties.lease_owner = excluded.lease_owner OR duties.lease_until <= :now
        RETURNING name
    """


def lease_duties(tx: Tx, owner: str, wanted: Sequence[DutyLease], *, now: float) -> Sequence[str]:
    held: list[str] = []
    # Most that is asked for is held by others: a read finds that out, and their rows are left in peace.
    taken = {row[0] for row in tx.execute(_HELD_BY_OTHERS, {"owner": owner, "now": now})}
    asked = {each.name: each for each in wanted if each.name not in taken}
    # In one order for all replicas, or two of them could wait for each other.
    ordered = sorted(asked.values(), key=lambda each: each.name)
    for start in range(0, len(ordered), _RENEWED_AT_ONCE):
        chunk = ordered[start : start + _RENEWED_AT_ONCE]
        params: dict[str, Value] = {"owner": owner, "now": now}
        for index, each in enumerate(chunk):
            params[f"name{index}"], params[f"until{index}"] = each.name, each.until
            params[f"ticked{index}"], params[f"problem{index}"] = each.ticked_at, each.problem
        held += [row[0] for row in tx.execute(duties(len(chunk)), params)]
    return held


def lease_duty(tx: Tx, name: str, owner: str, *, now: float, until: float, problem: str = "") -> bool:
    tick = DutyLease(name=name, until=until, ticked_at=now, problem=problem)
    return bool(lease_duties(tx, owner, (tick,), now=now))


def bookmark(tx: Tx, duty: str) -> Cursor | None:
    rows = tx.execute(_BOOKMARK, {"name": duty})
    return Cursor(rows[0][0]) if rows and rows[0][0] is not None else None


def move_bookmark(tx: Tx, duty: str, owner: str, cursor: Cursor) -> None:
    if not tx.change(_MOVE_BOOKMARK, {"name": duty, "owner": owner, "cursor": cursor}):
        raise not_the_holder(duty, owner)
