"""SQLite: the connection, its errors, and one batch of writes as one commit.

This module owns everything that only SQLite needs. One connection writes. A batch of writes is one
transaction with one savepoint each. So a failing write undoes itself alone, and the disk is synced once for
all.
"""

import contextlib
import logging
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from muster.domain.errors import Conflict, StoreUnavailable
from muster.domain.ids import OperationId
from muster.ports.commits import Written
from muster.stores.sql.disk_reserve import Reserve, give_up_spare
from muster.stores.sql.schema import LATEST
from muster.stores.sql.statements import APPEND
from muster.stores.sql.tx import (
    ALONE,
    FULL,
    NOTHING,
    Judge,
    Params,
    Refusal,
    Report,
    Row,
    T,
    Work,
    WorkResult,
    judge_row,
    with_cause,
)
from muster.stores.sql.vacuum import Vacuum

logger = logging.getLogger(__name__)

BUSY_SECONDS = 5.0
"""How long a commit waits for another process, such as a backup, before it gives up."""

CACHE_KIB = 32 * 1024
CHECK_SECONDS = 3.0
"""A check at start ends after so long, whatever is left to check."""
_STEPS = 10_000
"""Instructions of SQLite between two looks at the clock: a millisecond."""


class SqliteTx:
    """Implements Tx over one cursor: every statement is fetched whole before the next one starts."""

    __slots__ = ("_cursor", "_reserve", "by", "written")
    locks = ALONE
    hurried = False

    def __init__(self, cursor: sqlite3.Cursor, reserve: Reserve | None = None) -> None:
        self._cursor = cursor
        self._reserve = reserve
        self.written: list[Written] = []
        self.by: OperationId | None = None

    def execute(self, sql: str, params: Params = NOTHING) -> Sequence[Row]:
        return self._cursor.execute(sql, params).fetchall()

    def execute_all(self, *statements: tuple[str, Params]) -> Sequence[Sequence[Row]]:
        return [self.execute(sql, params) for sql, params in statements]

    def change(self, sql: str, params: Params = NOTHING) -> int:
        return self._cursor.execute(sql, params).rowcount

    def check(self, sql: str, params: Params, judge: Judge) -> None:
        judge(self._cursor.execute(sql, params).fetchall())

    def require(self, sql: str, params: Params, refusal: Refusal) -> None:
        judge_row(refusal, self._cursor.execute(sql, params).fetchall())

    def append(self, event: Params) -> None:
        self._cursor.execute(APPEND, event)

    def short(self) -> bool:
        return self._reserve is not None and self._reserve.short()


def connect(
    path: str | Path, *, readonly: bool = False, cache_kib: int = CACHE_KIB, patience: float = BUSY_SECONDS
) -> sqlite3.Connection:
    """Open a connection. `cache_kib`: how much of the file it keeps in memory. `patience`: seconds that a
    statement waits for a lock."""
    # Several statements differ only in their number of values, so keep more of them prepared.
    connection = sqlite3.connect(
        path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=512
    )
    try:
        if connection.execute("PRAGMA page_count").fetchone() == (0,):
            # Only before anything else is written to the file. Later, it would be a write.
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        for pragma in (
            "journal_mode = WAL",
            "synchronous = FULL",
            "temp_store = MEMORY",
            f"cache_size = -{cache_kib}",
        ):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        if readonly:
            connection.execute("PRAGMA query_only = ON")
        connection.execute(f"PRAGMA busy_timeout = {patience * 1000:.0f}")
    except BaseException:
        connection.close()
        raise
    return connection


def look(path: Path) -> Report:
    """Report what is there, without a change. Raises StoreUnavailable."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=BUSY_SECONDS)) as connection:
            found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
            version, named = 0, None
            if "schema_migrations" in tables:
                version = connection.execute("SELECT max(version) FROM schema_migrations").fetchone()[0] or 0
                named = connection.execute("SELECT max(id) FROM installation").fetchone()[0]
    except sqlite3.Error as error:
        raise translate_error(error) from error
    return Report(
        where=str(path),
        engine=f"SQLite {sqlite3.sqlite_version}",
        version=version,
        latest=LATEST,
        installation_id=named,
        problem="" if found == "ok" else f"the file is damaged ({found}); restore the latest backup",
    )


def check(connection: sqlite3.Connection, path: str | Path, *, within: float = CHECK_SECONDS) -> None:
    """Look for damaged pages. Raises StoreUnavailable if one was found in time."""
    until = time.monotonic() + within
    connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
    try:
        said = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
            logger.info("checked %s for %.0f s and found no damage so far", path, within)
            return
        said = str(error)
    finally:
        connection.set_progress_handler(None, 0)
    if said != "ok":
        raise StoreUnavailable(
            f"cannot use the store {path}: the file is damaged ({' '.join(str(said).split())}). Nothing was"
            " changed. Put the latest backup in its place (docs/operations.md), or save readable rows with"
            f" `sqlite3 {path} .recover`",
            why="the file is damaged",
        )


def installation_of(path: Path) -> str | None:
    """Return the installation of a file; None if it is missing or empty. Changes nothing. Raises
    StoreUnavailable."""
    if not path.exists() or not path.stat().st_size:
        return None
    give_up_spare(path)
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=BUSY_SECONDS)) as connection:
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
            if "installation" not in tables:
                return None
            named: str | None = connection.execute("SELECT max(id) FROM installation").fetchone()[0]
            return named
    except sqlite3.Error as error:
        raise translate_error(error) from error


def back_up(path: Path, copy: Path) -> None:
    """Write a whole and consistent copy while others write. Raises StoreUnavailable, and leaves nothing
    then."""
    try:
        with (
            closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=BUSY_SECONDS)) as source,
            closing(sqlite3.connect(copy)) as target,
        ):
            source.backup(target)
    except sqlite3.Error as error:
        for ending in ("", "-journal"):
            copy.with_name(copy.name + ending).unlink(missing_ok=True)
        known = translate_error(error)
        if isinstance(known, StoreUnavailable):
            raise StoreUnavailable(f"cannot copy {path} to {copy}: {known.why}", why=known.why) from error
        raise known from error


def put_back(copy: Path, path: Path) -> Path | None:
    """Put a copy in the place of a file that no process uses. Return where the present content is kept, or
    None if there was none. Raises StoreUnavailable; the file is then as it was."""
    kept = None
    if path.exists() and path.stat().st_size:
        kept = _unused(path)
        back_up(path, kept)
        kept.chmod(0o600)
    fresh = path.with_name(f"{path.name}.restoring")
    fresh.unlink(missing_ok=True)
    try:
        back_up(copy, fresh)
    except StoreUnavailable:
        if kept is not None:
            kept.unlink()  # the disk may be full, and the present file is where it was
        raise
    fresh.chmod(0o600)
    # The log belongs to the old content. `kept` has what was in it.
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    fresh.replace(path)
    return kept


def _unused(path: Path) -> Path:
    number = 1
    while (beside := path.with_name(f"{path.name}.before-restore-{number}")).exists():
        number += 1
    return beside


class Writer:
    """Runs batches of writes on one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._cursor = connection.cursor()
        self._reserve: Reserve | None = None
        self._vacuum: Vacuum | None = None

    def reserve(self, path: str | Path) -> None:
        """Keep room from now on, for what must be written though the disk is full; give back what is more."""
        self._reserve = Reserve(self._connection, path)
        self._reserve.keep()
        self._vacuum = Vacuum(self._connection)

    def ready(self) -> bool:
        """Look after the file, between two batches."""
        if self._vacuum is not None:
            self._vacuum.step()
        if self._reserve is not None:
            self._reserve.keep()
        return True

    def run(self, batch: Sequence[Work[Any]]) -> tuple[list[WorkResult], list[Written]]:
        """Run a batch; return each write's end, and what the commit appended. Never raises."""
        try:
            self._cursor.execute("BEGIN IMMEDIATE")
            ends = self._apart(batch) if len(batch) > 1 else [self._alone(batch[0])]
            self._cursor.execute("COMMIT")
        except BaseException as error:  # whatever it was, every waiter must hear of it
            _roll_back(self._connection)
            return [WorkResult(error=translate_error(error)) for _ in batch], []
        return [end for end, _ in ends], [each for _, written in ends for each in written]

    def one(self, work: Work[T]) -> tuple[T, list[Written]]:
        """Run one write by itself; return its value, and what the commit appended. Raises what went wrong."""
        try:
            self._cursor.execute("BEGIN IMMEDIATE")
            tx = SqliteTx(self._cursor, self._reserve)
            value = work(tx)
            self._cursor.execute("COMMIT")
        except BaseException as error:
            _roll_back(self._connection)
            raise translate_error(error)  # noqa: B904 — it has its cause
        return value, tx.written

    def _alone(self, work: Work[T]) -> tuple[WorkResult, list[Written]]:
        tx = SqliteTx(self._cursor, self._reserve)
        return WorkResult(value=work(tx)), tx.written

    def _apart(self, batch: Sequence[Work[Any]]) -> list[tuple[WorkResult, list[Written]]]:
        execute = self._cursor.execute
        ends: list[tuple[WorkResult, list[Written]]] = []
        for work in batch:
            execute("SAVEPOINT one")
            try:
                ends.append(self._alone(work))
            except Exception as error:  # handed to the one who waits for it
                if not self._connection.in_transaction:
                    raise  # the engine gave up the whole batch, e.g. because the disk is full
                execute("ROLLBACK TO one")
                ends.append((WorkResult(error=translate_error(error)), []))
            execute("RELEASE one")
        return ends

    def reader(self) -> "Reader":
        """Return a reader over the same connection, for a caller that never does two things at once."""
        return Reader(self._connection, alone=True)

    def close(self) -> None:
        self._connection.close()


class Reader:
    """Runs batches of reads, all on one snapshot that is as new as the newest of them.

    `alone`: no other connection writes meanwhile, so the present state is the snapshot.
    """

    def __init__(self, connection: sqlite3.Connection, *, alone: bool = False) -> None:
        self._connection = connection
        self._alone = alone
        self._cursor = connection.cursor()

    def ready(self) -> bool:
        return True

    def run(self, batch: Sequence[Work[Any]]) -> tuple[list[WorkResult], list[Written]]:
        if self._alone:
            return [self._one(work) for work in batch], []
        try:
            self._cursor.execute("BEGIN")
            ends = [self._one(work) for work in batch]
            self._cursor.execute("COMMIT")
        except BaseException as error:  # whatever it was, every waiter must hear of it
            _roll_back(self._connection)
            return [WorkResult(error=translate_error(error)) for _ in batch], []
        return ends, []

    def one(self, work: Work[T]) -> T:
        """Run one read by itself. Raises what went wrong."""
        try:
            return work(SqliteTx(self._cursor))
        except Exception as error:
            raise translate_error(error)  # noqa: B904 — it has its cause

    def _one(self, work: Work[T]) -> WorkResult:
        try:
            return WorkResult(value=work(SqliteTx(self._cursor)))
        except Exception as error:  # handed to the one who waits for it
            return WorkResult(error=translate_error(error))

    def close(self) -> None:
        self._connection.close()


def _roll_back(connection: sqlite3.Connection) -> None:
    # A connection that can't even do that is of no use, and the next BEGIN will say so.
    with contextlib.suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.rollback()


_ADVICE = {
    sqlite3.SQLITE_BUSY: "another process holds its lock; stop that process or wait for it",
    sqlite3.SQLITE_LOCKED: "another process holds its lock; stop that process or wait for it",
    sqlite3.SQLITE_FULL: FULL,
    sqlite3.SQLITE_READONLY: "the file is read-only; check its permissions and its file system",
    sqlite3.SQLITE_CANTOPEN: "the file can't be opened; check that its directory exists and is writable",
    sqlite3.SQLITE_PERM: "the file can't be opened; check its permissions",
    sqlite3.SQLITE_IOERR: "the disk reported an error, or its file system is read-only; check both",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; stop Muster and restore the latest backup",
    sqlite3.SQLITE_NOTADB: "the file is no SQLite database; name another path",
    sqlite3.SQLITE_NOMEM: "there is no memory left; stop something",
}
_TAKEN = (sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)
_PRIMARY = 0xFF
"""Extended codes carry the primary one in their low byte."""


def translate_error(error: BaseException) -> BaseException:
    """Return an error that the caller can act on. Anything else stays as it is."""
    if not isinstance(error, sqlite3.Error):
        return error
    code = getattr(error, "sqlite_errorcode", None)
    advice = None if code is None else _ADVICE.get(code & _PRIMARY)
    if code in _TAKEN:
        return with_cause(Conflict(f"cannot write: the record exists ({error})"), error)
    if advice is None:
        return error
    return with_cause(StoreUnavailable(f"cannot use the store: {advice} ({error})", why=advice), error)
