"""Databases that are not there, go away, are full, or are not what this program expects."""

import asyncio
import re
import traceback
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import cast

import psycopg
import pytest

from muster.domain import launch as launches
from muster.domain.errors import Conflict, InvalidRequest, StoreUnavailable
from muster.domain.operation import Status
from muster.stores.sql import SqlStore, schema
from muster.stores.sql.postgres import connections, feed
from muster.stores.sql.postgres import store as pg_store
from muster.stores.sql.postgres.connections import ConnectionFactory, Share
from muster.stores.sql.postgres.session import Reader, numbered
from muster.stores.sql.postgres.session import schema as spelt
from muster.stores.sql.postgres.store import create_database, look, open_postgres, prepare
from muster.stores.sql.tx import Params, Tx
from tests.contracts.store_contract.bookkeeping import assert_books_balance
from tests.contracts.store_contract.records import Records
from tests.stores import postgres
from tests.stores.ids import CountingIds
from tests.stores.wire import Wire


@pytest.fixture(scope="module")
def address() -> str:
    return postgres.fresh()


@pytest.fixture
def wire(address: str) -> Iterator[Wire]:
    wire = Wire(postgres.directory())
    yield wire
    wire.close()


@pytest.fixture
async def store(address: str, wire: Wire) -> AsyncIterator[SqlStore]:
    store = open_postgres(wire.url(address), ids=CountingIds(), connections=4)
    yield store
    wire.mend()
    await recovered(store)
    await assert_books_balance(store)
    await store.close()
    postgres.wipe(address)


async def recovered(store: SqlStore) -> None:
    """By itself, as soon as the database answers again."""
    async with asyncio.timeout(60.0):
        while True:
            try:
                await store.installation()
                await store.note("x", "back", reason=None, detail="", now=1.0)
            except StoreUnavailable:
                await asyncio.sleep(0.05)
            else:
                return


async def test_a_connection_that_died_in_its_sleep_is_made_again_unseen(
    store: SqlStore, address: str
) -> None:
    await store.note("x", "before", reason=None, detail="", now=1.0)
    with psycopg.connect(address, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    for _ in range(12):
        await store.note("x", "after", reason=None, detail="", now=1.0)
        await store.installation()


async def test_a_connection_lost_in_a_transaction_is_as_if_it_had_never_begun(store: SqlStore) -> None:
    tries: list[int] = []

    def dying(tx: Tx) -> None:
        tx.change("UPDATE installation SET max_nodes = max_nodes + 1")
        tries.append(1)
        if len(tries) == 1:
            tx.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    before = (await store.installation()).max_nodes
    await store._engine.write(dying)
    assert (await store.installation()).max_nodes == before + 1
    assert len(tries) == 2


async def test_a_client_that_stood_still_in_a_transaction_loses_it_and_begins_again(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has ended the session meanwhile, and psycopg calls that an internal error."""
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.3)
    store = open_postgres(address, ids=CountingIds(), connections=2)
    tries: list[int] = []

    def node_view(tx: Tx) -> None:
        tx.change("UPDATE installation SET max_nodes = max_nodes + 1")
        tries.append(1)
        if len(tries) == 1:
            ended(address)
        tx.execute("SELECT 1 FROM installation")

    before = (await store.installation()).max_nodes
    await store._engine.write(node_view)
    assert len(tries) == 2
    assert (await store.installation()).max_nodes == before + 1

    def standing_for_ever(tx: Tx) -> None:
        tx.change("UPDATE installation SET max_nodes = max_nodes + 1")
        ended(address)
        tx.execute("SELECT 1 FROM installation")

    with pytest.raises(StoreUnavailable, match=r"stopped during a transaction|connection was lost"):
        await store._engine.write(standing_for_ever)
    assert (await store.installation()).max_nodes == before + 1
    await store.close()
    postgres.wipe(address)


@pytest.mark.parametrize(
    "error",
    [
        psycopg.errors.AdminShutdown("terminating connection due to administrator command"),
        psycopg.DatabaseError("server closed the connection unexpectedly"),
    ],
)
async def test_a_lost_server_counts_before_the_connection_is_seen_to_end(
    store: SqlStore, error: psycopg.Error
) -> None:
    tries: list[int] = []

    def told(_tx: Tx) -> None:
        tries.append(1)
        if len(tries) == 1:
            raise error

    for run in (store._engine.write, store._engine.read):
        tries.clear()
        await run(told)
        assert len(tries) == 2


def ended(address: str) -> None:
    """Wait until the server has ended all that stood still in a transaction."""
    sql = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"
    with psycopg.connect(address, autocommit=True) as other:
        while other.execute(sql).fetchone() is not None:
            continue


async def test_a_primary_that_was_demoted_is_left_for_the_one_that_the_address_leads_to(
    store: SqlStore,
) -> None:
    tries: list[int] = []

    def demoted(tx: Tx) -> None:
        tries.append(1)
        if len(tries) == 1:
            tx.execute("SELECT set_config('default_transaction_read_only', 'on', false)")
            tx.execute("SELECT set_config('transaction_read_only', 'on', true)")
        tx.change("UPDATE installation SET max_nodes = max_nodes")

    await store._engine.write(demoted)
    assert len(tries) == 2


def test_a_server_that_takes_no_writes_is_not_used_for_reads_either() -> None:
    address = postgres.empty()
    name = address.split("/")[3].partition("?")[0]
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on".encode())
    with pytest.raises(StoreUnavailable, match="session is read-only"):
        ConnectionFactory(address).open()


@pytest.mark.parametrize(
    "written",
    ["se%cret", "secret%", "sec ret", "se@cret", "se/cret", "se?cret", "se#cret", "se:cr@et", "secr%zzet"],
)
@pytest.mark.parametrize(
    "form", ["postgresql://muster:{}@127.0.0.1:1/muster", "password={} host=127.0.0.1 port=1"]
)
def test_a_password_is_never_told_however_it_was_written(form: str, written: str) -> None:
    parts = [part for part in re.split(r"[^a-z]+", written) if part not in ("zzet",)]
    with pytest.raises((InvalidRequest, StoreUnavailable)) as raised:
        ConnectionFactory(form.format(written)).open()
    told = "".join(traceback.format_exception(raised.value))
    for part in filter(None, [written, *parts]):
        assert not re.search(rf"\b{re.escape(part)}\b", told.replace(__file__, "")), told
    if isinstance(raised.value, InvalidRequest):
        assert "write % as %25, a blank as %20" in str(raised.value)


class Standby:
    """What the feed asks, as a standby answers it."""

    def execute_all(self, *statements: tuple[str, Params]) -> list[list[tuple[object, ...]]]:
        return [[(9, True)] if "pg_is_in_recovery" in sql else [] for sql, _ in statements]


def test_how_far_the_log_is_complete_is_not_asked_of_a_standby() -> None:
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        feed.complete_upto(cast(Tx, Standby()))


async def test_a_commit_whose_answer_was_lost_is_told_as_uncertain_and_repeating_is_harmless(
    store: SqlStore, wire: Wire
) -> None:
    records = Records(store)
    operation = await records.leased()
    launch = records.plan(operation, size=2)
    wire.swallow_the_next_answer_to_a_commit()
    with pytest.raises(StoreUnavailable, match="the write may have happened"):
        await store.reserve(launch, cap=10, total_cap=10, fence=operation.fence)
    assert wire.swallowed.is_set()
    again = await store.reserve(launch, cap=10, total_cap=10, fence=operation.fence)
    assert again == launch
    assert (await store.usage("web")).total == 2
    draft = records.draft(key="once")
    wire.swallow_the_next_answer_to_a_commit()
    with pytest.raises(StoreUnavailable):
        await store.submit(draft)
    assert await store.submit(records.draft(key="once")) == (draft, False)
    called = launches.calling(again, now=3.0)
    wire.swallow_the_next_answer_to_a_commit()
    with pytest.raises(StoreUnavailable):
        await store.write_launch(again, called, fence=operation.fence)
    with pytest.raises(Conflict):
        await store.write_launch(again, called, fence=operation.fence)
    assert await store.launch(launch.id) == called


async def test_a_database_that_goes_away_is_told_at_once_and_found_again(store: SqlStore, wire: Wire) -> None:
    await store.note("x", "before", reason=None, detail="", now=1.0)
    wire.cut()
    for _ in range(20):
        with pytest.raises(
            StoreUnavailable, match=r"cannot (use|connect to) the store at postgresql://postgres@"
        ):
            await store.note("x", "lost", reason=None, detail="", now=1.0)
        with pytest.raises(StoreUnavailable):
            await store.installation()
    wire.mend()
    await recovered(store)
    page = await store.events(after=None, limit=100)
    assert [event.name for event in page.items] == ["before", "back"]


async def test_fewer_connections_than_wanted_are_used_without_errors() -> None:
    address = postgres.fresh()
    name = address.split("/")[3].split("?")[0]
    with psycopg.connect(address, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE few_{name} LOGIN CONNECTION LIMIT 3".encode())
        admin.execute(f"GRANT ALL ON SCHEMA public TO few_{name}".encode())
        for kind in ("TABLES", "SEQUENCES"):
            admin.execute(f"GRANT ALL ON ALL {kind} IN SCHEMA public TO few_{name}".encode())
    limited = address.replace("postgres@", f"few_{name}@")
    store = open_postgres(limited, ids=CountingIds(), connections=12)
    try:
        # A replica without a connection leaves the work to those that have one.
        await recovered(store)
        for _ in range(10):
            await asyncio.gather(
                *(store.note("x", "y", reason=None, detail="", now=1.0) for _ in range(8)),
                *(store.installation() for _ in range(8)),
            )
    finally:
        await store.close()


def test_a_store_that_cant_be_reached_is_told_without_its_password() -> None:
    with pytest.raises(
        StoreUnavailable, match=r"cannot connect to the store at postgresql://me@127\.0\.0\.1:1/db"
    ) as told:
        open_postgres("postgresql://me:secret@127.0.0.1:1/db", ids=CountingIds())
    assert "secret" not in str(told.value)
    with pytest.raises(InvalidRequest) as refused:
        open_postgres("postgresql://me:secret@h/db?no_such=1", ids=CountingIds())
    assert "secret" not in str(refused.value)


def test_wrong_credentials_and_missing_databases_are_told_in_the_servers_words() -> None:
    here = postgres.url("nowhere")
    with pytest.raises(StoreUnavailable, match='database "nowhere" does not exist'):
        open_postgres(here, ids=CountingIds())
    with pytest.raises(StoreUnavailable, match='role "nobody" does not exist'):
        open_postgres(here.replace("postgres@", "nobody@"), ids=CountingIds())


def test_a_wrong_password_is_told_and_the_right_one_opens() -> None:
    address = postgres.guarded("sesame")
    wrong = address.replace(":sesame@", ":simsalabim@")
    with pytest.raises(StoreUnavailable, match='password authentication failed for user "guarded"') as told:
        open_postgres(wrong, ids=CountingIds())
    assert "simsalabim" not in str(told.value)
    asyncio.run(open_postgres(address, ids=CountingIds(), connections=2).close())


@pytest.mark.parametrize("mode", ["require", "verify-full&sslrootcert=/etc/muster/root.crt"])
def test_encryption_that_is_asked_for_is_not_done_without(wire: Wire, address: str, mode: str) -> None:
    asked = wire.url(address).replace("sslmode=disable", f"sslmode={mode}")
    with pytest.raises(StoreUnavailable, match="server does not support SSL, but SSL was required"):
        open_postgres(asked, ids=CountingIds())


def test_a_schema_that_is_newer_than_the_program_is_refused() -> None:
    address = postgres.fresh()
    with psycopg.connect(address, autocommit=True) as admin:
        admin.execute("INSERT INTO schema_migrations (version, name) VALUES (9999, 'later')")
    with pytest.raises(StoreUnavailable, match="version 9999, and this program knows up to"):
        open_postgres(address, ids=CountingIds())


def test_tables_of_another_owner_are_refused_and_left_alone() -> None:
    address = postgres.empty()
    with psycopg.connect(address, autocommit=True) as admin:
        admin.execute("CREATE TABLE nodes (id TEXT)")
    with pytest.raises(StoreUnavailable, match="holds tables of something else"):
        open_postgres(address, ids=CountingIds())
    with psycopg.connect(address) as admin:
        assert admin.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (1,)


async def test_replicas_that_start_together_make_one_schema_and_one_installation() -> None:
    address = postgres.empty()
    await asyncio.gather(
        *(asyncio.to_thread(prepare, ConnectionFactory(address), CountingIds()) for _ in range(4))
    )
    found = look(ConnectionFactory(address))
    assert found.version == found.latest == schema.LATEST
    assert found.installation_id == "inst-000001"


def test_a_database_is_made_once() -> None:
    factory = ConnectionFactory(postgres.url("made_by_hand"))
    assert create_database(factory)
    assert not create_database(factory)
    assert look(factory).version == 0


def test_a_database_that_is_there_may_be_named_by_a_user_who_may_not_create_one() -> None:
    address = postgres.fresh()
    name = address.split("/")[3].split("?")[0]
    with psycopg.connect(address, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE user_of_{name} LOGIN".encode())
    assert not create_database(ConnectionFactory(address.replace("postgres@", f"user_of_{name}@")))


async def test_a_migration_that_waits_for_a_table_lets_others_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    address = postgres.fresh()
    added: list[str] = []

    def advance(tx: Tx) -> bool:
        if added:
            return False
        tx.change("ALTER TABLE nodes ADD COLUMN more TEXT")
        added.append("more")
        return True

    monkeypatch.setattr(schema, "advance", advance)
    monkeypatch.setattr(pg_store, "STEP_BACK_SECONDS", 0.2)
    waiting = b"SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = CAST('nodes' AS regclass)"
    with psycopg.connect(address) as holder, psycopg.connect(address, autocommit=True) as looker:
        holder.execute("SELECT 1 FROM nodes")
        migrating = asyncio.create_task(asyncio.to_thread(prepare, ConnectionFactory(address), CountingIds()))
        try:
            async with asyncio.timeout(30.0):
                for wanted in (1, 0, 1):
                    while looker.execute(waiting).fetchone() != (wanted,):
                        await asyncio.to_thread(looker.execute, "SELECT pg_sleep(0.01)")
        finally:
            holder.rollback()
            await migrating
    assert added


async def test_one_bad_read_fails_alone(address: str) -> None:
    reader = Reader(ConnectionFactory(address), Share(1))

    def good(tx: Tx) -> int:
        return int(tx.execute("SELECT 1")[0][0])

    def bad(tx: Tx) -> None:
        tx.execute("SELECT 1 / 0")

    first, second, third = reader.run([good, bad, good])[0]
    assert (first.value, first.error, third.value, third.error) == (1, None, 1, None)
    assert isinstance(second.error, psycopg.Error)
    reader.close()


async def test_an_operation_of_a_kind_that_only_newer_replicas_know_is_left_to_them(store: SqlStore) -> None:
    records = Records(store)
    newer, known = records.draft(), records.draft()
    for operation in (newer, known):
        await store.submit(operation)

    def become(kind: str) -> Callable[[Tx], int]:
        sql = "UPDATE operations SET kind = :kind WHERE id = :id"
        return lambda tx: tx.change(sql, {"kind": kind, "id": newer.id})

    await store._engine.write(become("of_the_future"))
    taken = await store.lease("replica-a", now=1e6, until=2e6, limit=9)
    assert [operation.id for operation in taken] == [known.id]
    everything = tuple(Status)
    pages = [
        await store.operations(statuses=everything, kind=None, run=None, after=None, limit=limit)
        for limit in (9, 1)
    ]
    assert [operation.id for operation in pages[0].items] == [known.id]
    rest = await store.operations(statuses=everything, kind=None, run=None, after=pages[1].next, limit=1)
    assert [operation.id for page in (pages[1], rest) for operation in page.items] == [known.id]
    assert [operation.id for operation in await store.overview.unfinished(limit=9)] == [known.id]
    with pytest.raises(StoreUnavailable, match=r"'of_the_future'.* ask a replica that was upgraded"):
        await store.operation(newer.id)
    await store._engine.write(become(newer.kind.value))
    taken = await store.lease("replica-b", now=1e6, until=2e6, limit=9)
    assert [operation.id for operation in taken] == [newer.id]


UNREAD = "DELETE FROM cluster_tokens WHERE cluster_id IN (SELECT id FROM clusters WHERE state <> 'creating')"
"""Takes away what no version reads: a token is asked for only while its cluster is being created."""


def harmful(statements: Sequence[str]) -> list[str]:
    """Those statements of a migration that could keep a program from before it from its work."""
    texts = [" ".join(statement.split()) for statement in statements]
    made = {text.split()[2] for text in texts if text.startswith("CREATE TABLE")}
    added = {(text.split()[2], text.split()[5]) for text in texts if " ADD COLUMN " in text}
    replaced = {text.split()[2] for text in texts if text.startswith("CREATE INDEX")}

    def harmless(text: str) -> bool:
        words = text.split()
        match words[:2]:
            case ["CREATE", "TABLE" | "INDEX"]:
                return True
            case ["CREATE", "UNIQUE"]:
                return words[5] in made  # elsewhere it would refuse what an older program writes
            case ["ALTER", "TABLE"]:
                return " ADD COLUMN " in text and ("NOT NULL" not in text or "DEFAULT" in text)
            case ["UPDATE", table]:
                columns = re.findall(r"(\w+) = ", text.partition(" WHERE ")[0])
                return all((table, column) in added for column in columns)
            case ["DROP", "INDEX"]:
                return words[2] in replaced
            case _:
                return text == UNREAD

    return [text for text in texts if not harmless(text)]


def test_migrations_take_nothing_from_older_replicas() -> None:
    for migration in schema.MIGRATIONS[1:]:
        assert harmful(migration.statements) == [], migration.name


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE UNIQUE INDEX nodes_machine ON nodes (machine_id)",
        "UPDATE nodes SET state = 'idle'",
        "ALTER TABLE nodes DROP COLUMN state",
        "ALTER TABLE nodes ADD COLUMN more TEXT NOT NULL",
        "DROP INDEX nodes_terminated",
        "DROP TABLE nodes",
        "DELETE FROM nodes",
    ],
)
def test_a_migration_that_would_take_something_is_told(statement: str) -> None:
    assert harmful(("CREATE TABLE more (id TEXT)", statement)) == [statement]


def test_the_schema_is_spelt_in_postgresqls_types() -> None:
    assert spelt("a INTEGER NOT NULL, b REAL, c BLOB, d TEXT") == (
        'a BIGINT NOT NULL, b DOUBLE PRECISION, c BYTEA, d TEXT COLLATE "C"'
    )


def test_a_name_that_stands_twice_is_one_parameter() -> None:
    assert numbered("SELECT :b, :a, :b") == ("SELECT $1, $2, $1", ("b", "a"))
