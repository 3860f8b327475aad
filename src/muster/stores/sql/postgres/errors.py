"""What went wrong, by what helps: run it again, connect again, tell the caller.

Owns the translation of SQLSTATEs. Nothing here reads a message; messages are handed on for people.
"""

from enum import Enum

import psycopg
from psycopg import errors

from muster.domain.errors import Conflict, StoreUnavailable
from muster.stores.sql.tx import Retry, with_cause


class Remedy(Enum):
    AGAIN = "others were in the way: run the transaction again"
    RECONNECT = "the connection is gone: the transaction with it"
    NONE = "tell the caller"


_RACES = (
    Retry,
    errors.SerializationFailure,
    errors.DeadlockDetected,
    # Two inserted the same at once. The loser finds it there when it looks again.
    errors.UniqueViolation,
)
_GONE = (
    # A process that stood still in a transaction wakes without it. psycopg may not have noticed the end yet.
    errors.IdleInTransactionSessionTimeout,
    # A primary that was demoted: the address may lead to another by now.
    errors.ReadOnlySqlTransaction,
)
"""Of no use any more, though it may look connected. Nothing of the transaction was written."""
_ADVICE: tuple[tuple[type[psycopg.Error], str], ...] = (
    (errors.QueryCanceled, "a statement took too long; look for what keeps the database busy"),
    (errors.LockNotAvailable, "another transaction holds a lock for too long; look for who is idle in one"),
    (
        errors.IdleInTransactionSessionTimeout,
        "this process was stopped during a transaction; give it more processor time",
    ),
    (errors.DiskFull, "its disk is full; free some space, nothing else is needed"),
    (errors.OutOfMemory, "it is out of memory; give it more, or fewer connections"),
    (errors.ReadOnlySqlTransaction, "it takes no writes; name the primary, not a standby"),
    (
        errors.InsufficientPrivilege,
        "the user may not do this; give it the rights on its tables and sequences",
    ),
    (errors.UndefinedTable, "its tables are missing; run `muster store create`"),
)


def connection_ended(error: BaseException) -> bool:
    """Tell whether the connection has ended, although it may look open for a moment more.

    The server said so, or it said nothing: an error without SQLSTATE comes from libpq, which lost the server.
    """
    silent = type(error) in (psycopg.DatabaseError, psycopg.OperationalError)
    if silent and isinstance(error, psycopg.Error) and error.sqlstate is None:
        return True
    return isinstance(error, errors.AdminShutdown | errors.CrashShutdown)


def remedy(error: BaseException, *, connected: bool) -> Remedy:
    if isinstance(error, _RACES):
        return Remedy.AGAIN
    if isinstance(error, _GONE) or (isinstance(error, psycopg.Error) and not connected):
        return Remedy.RECONNECT
    return Remedy.NONE


def translate_error(error: BaseException, *, where: str, connected: bool = True) -> BaseException:
    """Return an error that the caller can act on. Anything else stays as it is."""
    if isinstance(error, errors.UniqueViolation):
        return with_cause(Conflict(f"cannot write: the record exists ({_said(error)})"), error)
    if isinstance(error, _RACES):
        return _unavailable(where, "too many write the same at once; try again later", error)
    for kind, advice in _ADVICE:
        if isinstance(error, kind):
            return _unavailable(where, advice, error)
    if isinstance(error, psycopg.OperationalError) or (isinstance(error, psycopg.Error) and not connected):
        return _unavailable(where, _lost(connected), error)
    return error


def uncertain(error: BaseException, *, where: str) -> BaseException:
    """Return the error for a connection that was lost during COMMIT."""
    return _unavailable(
        where,
        "the connection was lost during a commit: the write may have happened; check, then repeat",
        error,
    )


def _lost(connected: bool) -> str:
    if connected:
        return "it refused to work; see why"
    return "the connection was lost; it will be made again"


def _unavailable(where: str, advice: str, error: BaseException) -> BaseException:
    words = f"cannot use the store at {where}: {advice} ({_said(error)})"
    return with_cause(StoreUnavailable(words, why=advice), error)


def _said(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
