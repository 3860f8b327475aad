"""Find up to which number the event log is complete, although transactions commit in any order.

A number is drawn before the commit, so a later one may be seen first. Therefore an appender announces itself
before it draws. It holds, to the end of its transaction, a shared advisory lock. The lock's key is the last
number that was drawn until then. What the appender draws is higher.

    appender   lock(last) ── draw ── insert ── commit (then the lock goes)
    reader     last ── locks ── rows up to the lower of `last` and the lowest lock

A number missing below that bound was drawn before `last` was read, under a lock. That lock was gone when the
locks were read, so its transaction has ended. The event is visible now, or never will be. An entity's events
are in order, because each is drawn at the end of a transaction that holds the entity's row.
"""

from functools import lru_cache

from psycopg.errors import ReadOnlySqlTransaction

from muster.stores.sql.statements import COLUMNS, INTO
from muster.stores.sql.tx import NOTHING, Tx

_ROUND = 1 << 31
"""Keys are 31 bits of the number. Numbers that are in use at one moment lie close together."""

KEY = "SELECT CAST(CAST('events' AS regclass) AS oid)"
"""The first half of the lock's name: no other program uses the number of our own table."""
MARK = """
    SELECT pg_advisory_xact_lock_shared(CAST(:key AS integer), CAST(last_value % 2147483648 AS integer))
    FROM events_seq_seq
"""


@lru_cache(maxsize=256)
def appending(count: int) -> str:
    """Mark, then draw and insert: a row has its number only when it has come through the mark."""
    rows = ", ".join("(" + ", ".join(f":{name}{row}" for name in COLUMNS) + ")" for row in range(count))
    return f"""
        WITH mark AS MATERIALIZED ({MARK})
        {INTO} SELECT v.* FROM mark CROSS JOIN (VALUES {rows}) AS v
    """


_LAST = "SELECT last_value, pg_is_in_recovery() FROM events_seq_seq"
_MARKS = """
    SELECT CAST(l.objid AS bigint) FROM pg_locks AS l
    WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.classid = CAST('events' AS regclass)
      AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
"""


def complete_upto(tx: Tx) -> int:
    """Read the last number, then the locks; the module's docstring says why in this order."""
    ((last, standby),), marks = tx.execute_all((_LAST, NOTHING), (_MARKS, NOTHING))
    if standby:
        raise ReadOnlySqlTransaction("this is a standby: it knows no locks of those who append")
    return min((_before(last, mark) for (mark,) in marks), default=last)


def _before(last: int, mark: int) -> int:
    """Return the number behind a mark; at most `last`, for a mark that was made since."""
    ahead = (mark - last) % _ROUND
    if ahead < _ROUND // 2:
        return last
    return last - (_ROUND - ahead)


def signed(oid: int) -> int:
    """Return a table's unsigned number as the signed number of an advisory lock."""
    return oid - (1 << 32) if oid >= _ROUND else oid
