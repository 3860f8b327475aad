"""Run transactions on one connection.

This module owns begin, commit and the handling of errors between them. A transaction that lost a race is run
again from its beginning, without notice to the caller. So is, once, a transaction whose connection was lost
before COMMIT was sent. A connection lost during COMMIT leaves open whether the write happened, and the caller
is told so.
"""

import contextlib
import random
import re
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, Protocol

import psycopg
from psycopg import errors
from psycopg.pq.abc import PGresult

from muster.domain.errors import StoreUnavailable
from muster.domain.ids import OperationId
from muster.ports.commits import Written
from muster.stores.sql.postgres import feed
from muster.stores.sql.postgres.bridge import in_thread, pause
from muster.stores.sql.postgres.connections import Connection, ConnectionFactory, Share
from muster.stores.sql.postgres.errors import Remedy, connection_ended, remedy, translate_error, uncertain
from muster.stores.sql.postgres.pipeline import Pipeline
from muster.stores.sql.postgres.shared_reads import at_once, side_by_side
from muster.stores.sql.tx import (
    NOTHING,
    Hasty,
    Judge,
    Locks,
    Params,
    Refusal,
    Retry,
    Row,
    Value,
    Work,
    WorkResult,
    judge_row,
)

SIDE_BY_SIDE = Locks(alone=False, hold=" FOR UPDATE", skip=" FOR UPDATE SKIP LOCKED", share=" FOR SHARE")
RACES_MOST = 12
"""So many lost races in a row are no chance any more."""
PAUSE = 0.005
_HASTY = (Hasty, errors.DivisionByZero)
APPENDED_AT_ONCE = 64
_READ = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class Statements(Protocol):
    """Sends statements, and waits for the answers of all that were sent: a pipeline, or a part of one."""

    def defer(self, sql: str, given: Sequence[Value]) -> None: ...

    def answers(self) -> Sequence[PGresult]: ...

    def rows(self, answer: PGresult) -> list[Row]: ...


class PgTx:
    """Implements Tx. The log is appended to at the end: until the commit that holds back its readers."""

    __slots__ = ("_appended", "_judges", "_pipeline", "by", "hurried", "written")
    locks = SIDE_BY_SIDE

    def __init__(self, pipeline: Statements, *, hurried: bool = False) -> None:
        """Open it on a connection. `hurried`: what `require` asks fails in the database, which doesn't say
        what was refused."""
        self._pipeline = pipeline
        self.hurried = hurried
        self._appended: list[Params] = []
        self._judges: list[Judge] = []
        """Of the statements that were sent first and not answered yet."""
        self.written: list[Written] = []
        self.by: OperationId | None = None

    def execute(self, sql: str, params: Params = NOTHING) -> Sequence[Row]:
        self._defer(sql, params)
        return self._pipeline.rows(self._answers()[0])

    def execute_all(self, *statements: tuple[str, Params]) -> Sequence[Sequence[Row]]:
        for sql, params in statements:
            self._defer(sql, params)
        return [self._pipeline.rows(answer) for answer in self._answers()]

    def change(self, sql: str, params: Params = NOTHING) -> int:
        self._defer(sql, params)
        return self._answers()[0].command_tuples or 0

    def check(self, sql: str, params: Params, judge: Judge) -> None:
        self._defer(sql, params)
        self._judges.append(judge)

    def require(self, sql: str, params: Params, refusal: Refusal) -> None:
        if self.hurried:
            self.check(demanding(sql), params, _satisfied)
        else:
            self.check(sql, params, partial(judge_row, refusal))

    def _answers(self) -> Sequence[PGresult]:
        """Return an answer for each statement that no judge looks at."""
        answers, judges = self._pipeline.answers(), self._judges
        self._judges = []
        for judge, answer in zip(judges, answers, strict=False):
            judge(self._pipeline.rows(answer))
        return answers[len(judges) :]

    def append(self, event: Params) -> None:
        self._appended.append(event)

    def short(self) -> bool:
        """Return False: the database's disk is its own, and no job of ours fills it."""
        return False

    def finish(self, session: "Session") -> None:
        """Let the judges decide, then append the events, together with the COMMIT that follows."""
        if any(judge is not _satisfied for judge in self._judges):
            self._answers()
        if not self._appended:
            return
        key = session.key or self._look_up_key(session)
        for start in range(0, len(self._appended), APPENDED_AT_ONCE):
            some = self._appended[start : start + APPENDED_AT_ONCE]
            params: dict[str, Value] = {"key": key}
            for row, event in enumerate(some):
                params.update((f"{name}{row}", value) for name, value in event.items())
            self._defer(feed.appending(len(some)), params)

    def _look_up_key(self, session: "Session") -> int:
        session.key = feed.signed(int(self.execute(feed.KEY)[0][0]))
        return session.key

    def _defer(self, sql: str, params: Params) -> None:
        """Send a statement. What PostgreSQL can't store is replaced."""
        text, names = numbered(sql)
        given = values(names, params)
        try:
            self._pipeline.defer(text, given)
        except psycopg.DataError:
            without = storable(given)
            if without == given:
                raise
            self._pipeline.defer(text, without)


def _satisfied(_rows: Sequence[Row]) -> None:
    """Let the transaction happen: the database has judged."""


@lru_cache(maxsize=1024)
def demanding(sql: str) -> str:
    """Return a statement that fails with DivisionByZero where the given one gives no row."""
    return f"WITH demanded AS ({sql}) SELECT 1 / count(*) FROM demanded"


class Session:
    """A connection that is made when it is needed, and again when it was lost."""

    def __init__(self, factory: ConnectionFactory, share: Share) -> None:
        self._factory = factory
        self._share = share
        self._connection: Connection | None = None
        self._pipeline: Pipeline | None = None
        self.key = 0

    @property
    def where(self) -> str:
        return self._factory.where

    @property
    def connected(self) -> bool:
        return self._connection is not None and not self._connection.broken and not self._connection.closed

    @property
    def uncertain(self) -> bool:
        """Return whether the present transaction may have been committed."""
        return self._pipeline is not None and self._pipeline.uncertain

    def ready(self) -> bool:
        """Connect if needed and allowed. Without success, connected sessions do the work; if there are
        none, this one reports the error."""
        if self.connected:
            return self._stay()
        self.close()  # a connection that died in its sleep does no work, so it must not count
        if self._factory.closed is not None or not self._share.ask():
            return self._share.held == 0
        try:
            self.pipeline()
        except StoreUnavailable:
            self._share.refused()
            return self._share.held == 0
        finally:
            self._share.asked()
        return True

    def _stay(self) -> bool:
        if self._share.give_back():
            self._end()
            return False
        if self._share.look():
            try:
                in_thread(self._factory.connect).close()
            except psycopg.Error:
                self._share.refused()
        return True

    def pipeline(self) -> Pipeline:
        """Return the connection's statements. Raises StoreUnavailable."""
        if self._pipeline is None or not self.connected:
            self.close()
            self._connection = in_thread(self._factory.open)
            self._share.entered()
            self._pipeline = Pipeline(self._connection)
            self.key = 0
        return self._pipeline

    def unwatch(self) -> None:
        """Let a thread use the connection: the loop reads from it no more."""
        if self._connection is not None:
            self._connection.unwatch()

    def leave(self, found: Remedy) -> None:
        """Clean up after a failed transaction, for the next one."""
        if found is Remedy.RECONNECT:
            self.close()
        else:
            self.undo()

    def undo(self) -> None:
        """Roll back. A connection that can't is closed."""
        if self._pipeline is None:
            return
        try:
            self._pipeline.roll_back()
        except psycopg.Error:
            self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._end()
            self._share.left()

    def _end(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                self._connection.close()
            self._connection = self._pipeline = None


class _Runner:
    """Looks after the one session that it runs transactions on."""

    def __init__(self, factory: ConnectionFactory, share: Share) -> None:
        self._session = Session(factory, share)

    def ready(self) -> bool:
        return self._session.ready()

    def unwatch(self) -> None:
        self._session.unwatch()

    def close(self) -> None:
        self._session.close()


class Writer(_Runner):
    """Runs each write as a transaction of its own."""

    def run(self, batch: Sequence[Work[Any]]) -> tuple[list[WorkResult], list[Written]]:
        ends, written = [], []
        for work in batch:
            end, made = self._one(work)
            ends.append(end)
            written.extend(made)
        return ends, written

    def _one(self, work: Work[Any]) -> tuple[WorkResult, list[Written]]:
        with contextlib.suppress(*_HASTY):
            return self._repeated(work, hurried=True)
        # A guard has refused it. Run it once more to hear which, and what to say.
        self._session.undo()
        return self._repeated(work, hurried=False)

    def _repeated(self, work: Work[Any], *, hurried: bool) -> tuple[WorkResult, list[Written]]:
        """Run a transaction, again where that helps. Raises one of _HASTY if it was hurried and refused."""
        lost = 0
        for attempt in range(1, RACES_MOST + 1):
            try:
                return self._transact(work, hurried=hurried)
            except BaseException as error:  # whatever it was, the one who waits must hear of it
                if hurried and isinstance(error, _HASTY):
                    raise
                connected = self._session.connected and not connection_ended(error)
                if self._session.uncertain and not connected:
                    self._session.close()
                    return WorkResult(error=uncertain(error, where=self._session.where)), []
                found = remedy(error, connected=connected)
                self._session.leave(found)
                lost += found is Remedy.RECONNECT
                if found is Remedy.NONE or lost > 1 or attempt == RACES_MOST:
                    told = translate_error(error, where=self._session.where, connected=connected)
                    return WorkResult(error=told), []
                # Apart, or those who met will meet again.
                pause(PAUSE * attempt * random.random())  # noqa: S311 — spreads load, guards nothing
        raise AssertionError("unreachable")

    def _transact(self, work: Work[Any], *, hurried: bool) -> tuple[WorkResult, list[Written]]:
        pipeline = self._session.pipeline()
        pipeline.begin(b"BEGIN")
        tx = PgTx(pipeline, hurried=hurried)
        value = work(tx)
        tx.finish(self._session)
        if pipeline.commit() != b"COMMIT":
            raise Retry("the server rolled back instead")
        return WorkResult(value=value), tx.written


class Reader(_Runner):
    """Runs batches of reads, all on one snapshot that is as new as the newest of them."""

    def run(self, batch: Sequence[Work[Any]]) -> tuple[list[WorkResult], list[Written]]:
        for last in (False, True):
            try:
                return self._look(batch), []
            except BaseException as error:  # whatever it was, every waiter must hear of it
                connected = self._session.connected and not connection_ended(error)
                found = remedy(error, connected=connected)
                self._session.leave(found)
                if found is Remedy.NONE and connected and len(batch) > 1:
                    # One of them is at fault, and the others need not know.
                    return [self.run([work])[0][0] for work in batch], []
                if last or found is Remedy.NONE:
                    told = translate_error(error, where=self._session.where, connected=connected)
                    return [WorkResult(error=told) for _ in batch], []
        raise AssertionError("unreachable")

    def _look(self, batch: Sequence[Work[Any]]) -> list[WorkResult]:
        pipeline = self._session.pipeline()
        works = [partial(self._one, work) for work in batch]
        pipeline.begin(_READ)
        ends = at_once(works, pipeline)
        longer = [place for place, end in enumerate(ends) if isinstance(end.error, Hasty)]
        if longer:
            pipeline.begin(_READ)
            late = side_by_side([works[place] for place in longer], pipeline)
            pipeline.leave()
            for place, end in zip(longer, late, strict=True):
                ends[place] = end
        return ends

    def _one(self, work: Work[Any], pipeline: Statements) -> WorkResult:
        try:
            return WorkResult(value=work(PgTx(pipeline)))
        except psycopg.Error:
            raise  # the snapshot is gone, and with it what the others would have read
        except Exception as error:  # handed to the one who waits for it
            return WorkResult(error=error)


_NAME = re.compile(r":([a-z_][a-z0-9_]*)")
_TYPES = {
    "INTEGER PRIMARY KEY AUTOINCREMENT": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "INTEGER": "BIGINT",
    "REAL": "DOUBLE PRECISION",
    "BLOB": "BYTEA",
    # Texts are compared by their bytes, as SQLite does, whatever the database's language is.
    "TEXT": 'TEXT COLLATE "C"',
}
_TYPE = re.compile("|".join(rf"\b{name}\b" for name in _TYPES))


@lru_cache(maxsize=4096)
def numbered(sql: str) -> tuple[str, tuple[str, ...]]:
    """Return SQL with `$1` for `:name`, and the names in the order of their numbers."""
    names: dict[str, int] = {}
    text = _NAME.sub(lambda found: f"${names.setdefault(found[1], len(names) + 1)}", sql)
    return text, tuple(names)


def values(names: tuple[str, ...], params: Params) -> tuple[Value, ...]:
    return tuple(params[name] for name in names)


def storable(given: tuple[Value, ...]) -> tuple[Value, ...]:
    """Return text without the one character that PostgreSQL can't store."""
    return tuple(each.replace("\0", "\ufffd") if isinstance(each, str) else each for each in given)


def schema(statement: str) -> str:
    """Return a statement of a migration in PostgreSQL's types."""
    return _TYPE.sub(lambda found: _TYPES[found[0]], statement)
