"""The counters behind the caps: what each template, and everything together, uses.

This module alone changes them. They move in the transaction that reserves, adopts, closes a launch or
terminates a node. The audit recounts them and reports where they were wrong.
"""

from collections.abc import Sequence

from muster.domain.errors import CapReached
from muster.domain.events import of_correction
from muster.ports.store import TOTAL, Drift, Usage
from muster.stores.sql import events
from muster.stores.sql.tx import Tx

_ADD = """
    INSERT INTO counters (scope, used) VALUES (:scope, :change)
    ON CONFLICT (scope) DO UPDATE SET used = counters.used + excluded.used
"""
_TAKE = "UPDATE counters SET used = used + :count WHERE scope = :scope AND used + :count <= :cap"
_USED = "SELECT used FROM counters WHERE scope = :scope"
# What is counted and what is stored, in one statement: as of one moment, whatever is written meanwhile.
_RECOUNT = """
    SELECT template, CAST(sum(used) AS BIGINT), NULL FROM (
        SELECT template, count(*) AS used FROM nodes WHERE state <> 'terminated' GROUP BY template
        UNION ALL
        SELECT template, sum(CASE WHEN count > adopted THEN count - adopted ELSE 0 END) AS used
        FROM launches WHERE closed_at IS NULL GROUP BY template
    ) AS parts GROUP BY template
    UNION ALL
    SELECT scope, NULL, used FROM counters
    ORDER BY 1
"""


def scope_of(template: str) -> str:
    return f"template/{template}"


def add(tx: Tx, template: str, change: int) -> None:
    """Move both counters by what was really written, caps or no caps."""
    if change:
        for scope in (scope_of(template), TOTAL):
            tx.change(_ADD, {"scope": scope, "change": change})


def take(tx: Tx, template: str, count: int, *, cap: int, total_cap: int) -> None:
    """Take room under both caps, or raise CapReached."""
    for scope, most in ((scope_of(template), cap), (TOTAL, total_cap)):
        if tx.change(_TAKE, {"scope": scope, "count": count, "cap": most}):
            continue
        # The first launch of a template has no counter to move yet.
        tx.change(_ADD, {"scope": scope, "change": 0})
        if not tx.change(_TAKE, {"scope": scope, "count": count, "cap": most}):
            raise CapReached(scope=scope, used=used(tx, scope), cap=most, wanted=count)


def used(tx: Tx, scope: str) -> int:
    rows = tx.execute(_USED, {"scope": scope})
    return rows[0][0] if rows else 0


def usage(tx: Tx, template: str) -> Usage:
    return Usage(template=used(tx, scope_of(template)), total=used(tx, TOTAL))


def audit(tx: Tx, *, now: float) -> Sequence[Drift]:
    if not _drifts(tx):
        return []
    # One auditor at a time sets right. Others may go on: they move a counter by what they write, so that what
    # it is wrong by stays the same.
    tx.execute(_USED + tx.locks.hold, {"scope": TOTAL})
    drifts = _drifts(tx)
    for drift in drifts:
        tx.change(_ADD, {"scope": drift.scope, "change": drift.counted - drift.stored})
        told = of_correction(drift.scope, counted=drift.counted, stored=drift.stored)
        events.append(tx, told, at=now)
    return drifts


def _drifts(tx: Tx) -> list[Drift]:
    counted: dict[str, int] = {}
    stored: dict[str, int] = {}
    for name, found, kept in tx.execute(_RECOUNT):
        if kept is None:
            counted[scope_of(name)] = found
        else:
            stored[name] = kept
    counted[TOTAL] = sum(counted.values())
    return [
        Drift(scope=scope, counted=counted.get(scope, 0), stored=stored.get(scope, 0))
        for scope in sorted(dict.fromkeys((*counted, *stored)))
        if counted.get(scope, 0) != stored.get(scope, 0)
    ]
