"""Opening a store in PostgreSQL: what it must be, its schema, and the connections that will be used.

Migrations run under an advisory lock, each in its own transaction, so that replicas may start together. Those
that are running already go on: a migration takes nothing away that they use (a test holds it to that).
"""

import contextlib
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors, sql

from muster.domain.errors import StoreUnavailable
from muster.domain.ids import InstallationId
from muster.ports.commits import AfterCommit
from muster.ports.ids import Ids
from muster.stores.sql import schema, templates
from muster.stores.sql.postgres import feed
from muster.stores.sql.postgres.connections import Connection, ConnectionFactory, Share
from muster.stores.sql.postgres.errors import translate_error
from muster.stores.sql.postgres.loop_engine import LoopEngine
from muster.stores.sql.postgres.pipeline import Pipeline
from muster.stores.sql.postgres.session import PgTx, Reader, Writer
from muster.stores.sql.postgres.session import schema as spelt
from muster.stores.sql.store import SqlStore
from muster.stores.sql.tx import NOTHING, Params, Report, T, Work

OLDEST = 140000
"""The oldest server version with all that is used here."""
CONNECTIONS = 16
READERS_OF = 4
"""One connection of so many reads; reads that wait together share it, writes don't."""
CLAIMING = 4
"""Groups of claims of one demand: some read while others commit, and more would only be smaller."""
MIGRATING = 0x6D7573746572
"""The advisory lock of the process that changes the schema."""
MIGRATION_SECONDS = 600.0
STEP_BACK_SECONDS, PAUSE_SECONDS = 2.5, 1.0
"""Other transactions queue behind a migration that waits for a table. So it stops, pauses and repeats."""


def open_postgres(
    url: str, *, ids: Ids, connections: int = CONNECTIONS, after_commit: AfterCommit = lambda _written: None
) -> SqlStore:
    """Open the store with at most `connections` connections. Raises StoreUnavailable with what is wrong."""
    prepare(ConnectionFactory(url), ids)
    few = max(1, connections // READERS_OF)
    many = max(1, connections - few)
    # A factory and a share each: whether another session can do the work is asked among equals.
    reading, its_share = ConnectionFactory(url), Share(few)
    readers = [Reader(reading, its_share) for _ in range(few)]
    writing, its_share = ConnectionFactory(url), Share(many)
    writers = [Writer(writing, its_share) for _ in range(many)]
    # One of each first: where there are fewer than wanted, neither takes them all.
    readers[0].ready()
    writers[0].ready()
    engine = LoopEngine(writers, readers, after_commit, horizon=feed.complete_upto)
    return SqlStore(engine, groups=CLAIMING)


def prepare(factory: ConnectionFactory, ids: Ids) -> None:
    """Bring the schema up to date, and name a new installation."""
    with _translating(factory), _alone(factory) as pipeline:
        while _advance(pipeline):
            pass
        _transact(pipeline, lambda tx: templates.name_installation(tx, InstallationId(ids.new("inst"))))


def create_database(factory: ConnectionFactory) -> bool:
    """Make the database that the address names. False: it was there."""
    # Looked for first: a user who may only use it could not even ask to create it.
    with contextlib.suppress(psycopg.OperationalError):
        factory.connect().close()
        return False
    with _translating(factory), factory.connect(database="postgres") as connection:
        try:
            connection.execute(
                sql.SQL("CREATE DATABASE {} ENCODING 'UTF8' TEMPLATE template0")
                .format(sql.Identifier(factory.database))
                .as_string(connection)
            )
        except errors.DuplicateDatabase:
            return False
        return True


def look(factory: ConnectionFactory) -> Report:
    """Report what is there, without a change."""
    with _translating(factory), factory.open() as connection:
        _check(connection, factory)
        cursor = connection.cursor()
        version, named = 0, None
        if _one(cursor, "SELECT to_regclass('schema_migrations') IS NOT NULL"):
            version = int(str(_one(cursor, "SELECT coalesce(max(version), 0) FROM schema_migrations")))
        if version:
            named = _one(cursor, "SELECT max(id) FROM installation")
        return Report(
            where=factory.where,
            engine=f"PostgreSQL {_one(cursor, 'SHOW server_version')}",
            version=version,
            latest=schema.LATEST,
            installation_id=None if named is None else str(named),
            connections=int(str(_one(cursor, "SHOW max_connections"))),
        )


class _SchemaTx(PgTx):
    """Statements of migrations, whose types are SQLite's."""

    __slots__ = ()

    def change(self, sql: str, params: Params = NOTHING) -> int:
        return super().change(spelt(sql), params)


@contextmanager
def _alone(factory: ConnectionFactory) -> Iterator[Pipeline]:
    """Open a connection that alone may change the schema."""
    with factory.open(statement_seconds=MIGRATION_SECONDS) as connection:
        _check(connection, factory)
        connection.execute(f"SET lock_timeout = {int(MIGRATION_SECONDS * 1000)}")
        connection.execute("SELECT pg_advisory_lock($1)", (MIGRATING,))
        connection.execute(f"SET lock_timeout = {int(STEP_BACK_SECONDS * 1000)}")
        yield Pipeline(connection)  # and with it the lock goes


@contextmanager
def _translating(factory: ConnectionFactory) -> Iterator[None]:
    try:
        yield
    except errors.DuplicateTable as error:
        raise StoreUnavailable(
            f"cannot use the store at {factory.where}: its database holds tables of something else"
            f" ({' '.join(str(error).split())}); name another, which `muster store create` makes"
        ) from error
    except psycopg.Error as error:
        raise translate_error(error, where=factory.where) from error


def _advance(pipeline: Pipeline) -> bool:
    for _ in range(int(MIGRATION_SECONDS / (STEP_BACK_SECONDS + PAUSE_SECONDS))):
        try:
            return _transact(pipeline, schema.advance)
        except errors.LockNotAvailable:
            time.sleep(PAUSE_SECONDS)
    return _transact(pipeline, schema.advance)


def _transact(pipeline: Pipeline, work: Work[T]) -> T:
    pipeline.begin(b"BEGIN")
    try:
        value = work(_SchemaTx(pipeline))
        pipeline.commit()
    except BaseException:
        with contextlib.suppress(psycopg.Error):  # the connection is gone, and its transaction with it
            pipeline.roll_back()
        raise
    return value


def _check(connection: Connection, factory: ConnectionFactory) -> None:
    found = connection.info.server_version
    if found < OLDEST:
        raise StoreUnavailable(
            f"cannot use the store at {factory.where}: its server is PostgreSQL {found // 10000}, and Muster"
            f" needs {OLDEST // 10000} or newer"
        )
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreUnavailable(
            f"cannot use the store at {factory.where}: its database holds {encoding}, not UTF8; make another"
            " with `muster store create`"
        )


def _one(cursor: psycopg.Cursor[tuple[object, ...]], query: str) -> object:
    row = cursor.execute(query).fetchone()
    return None if row is None else row[0]
