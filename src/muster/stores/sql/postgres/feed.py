"""The event log is complete up to a number, although transactions commit in any order.

A number is drawn before the commit, so a later one may be seen first. Whoever appends therefore says so
before he draws: he holds, to the end of his transaction, a shared advisory lock whose key is the last number
that was drawn until then. What he draws is higher.

    appender   lock(last) ── draw ── insert ── commit (then the lock goes)
    reader     last ── locks ── rows up to the lower of `last` and the lowest lock

What is missing below that bound was drawn before `last` was read, by somebody who held a lock while he drew.
He held none any more when the locks were read, so he has ended: it is visible now, or it never will be. An
entity's events are in order because each is drawn at the end of a transaction that holds the entity's row.
"""

from functools import lru_cache

from psycopg.errors import ReadOnlySqlTransaction

from muster.stores.sql.statements import COLUMNS, INTO
from muster.stores.sql.tx import Tx

_ROUND = 1 << 31
"""Keys are 31 bits of the number. Numbers that are in use at one moment lie close together."""

KEY = "SELECT CAST(CAST('events' AS regclass) AS oid)"
"""The first half of the lock's name: nobody else uses the number of our own table."""
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
    """The order of these two is the point; see above. Neither depends on the transaction's snapshot."""
    ((last, standby),) = tx.execute(_LAST)
    if standby:
        raise ReadOnlySqlTransaction("this is a standby: it knows no locks of those who append")
    return min((_before(last, mark) for (mark,) in tx.execute(_MARKS)), default=last)


def _before(last: int, mark: int) -> int:
    """The number behind a mark; not above `last`, for a mark that was made since."""
    ahead = (mark - last) % _ROUND
    if ahead < _ROUND // 2:
        return last
    return last - (_ROUND - ahead)


def signed(oid: int) -> int:
    """Advisory locks are named by signed numbers, tables by unsigned ones."""
    return oid - (1 << 32) if oid >= _ROUND else oid
