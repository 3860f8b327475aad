"""What the caller hears when the disk, the file or another process gets in the way."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from muster.domain.errors import InvalidRequest, StoreUnavailable
from muster.domain.operation import Kind, Status
from muster.ports.store import Store
from muster.stores.sql import SqlStore, open_sqlite
from muster.stores.sql.disk_reserve import LOOK_EVERY, SIZE, Reserve
from muster.stores.sql.engines import ThreadedEngine
from tests.contracts.store_contract.bookkeeping import assert_books_balance, whole_feed
from tests.domain.builders import RELEASE, operation
from tests.stores.ids import CountingIds

_WRITER = """
import asyncio, sys
from muster.stores.sql import open_sqlite
from tests.stores.ids import CountingIds

async def main():
    store = open_sqlite(sys.argv[1], ids=CountingIds())
    for number in range(1_000_000):
        await store.note("m-1", "written", reason=None, detail=str(number), now=float(number))
        print(number, flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("inline", [True, False])
async def test_a_full_disk_is_told_and_survived(tmp_path: Path, inline: bool) -> None:
    store = open_sqlite(tmp_path / "muster.db", ids=CountingIds(), inline=inline)
    await store.note("m-1", "before", reason=None, detail="", now=1.0)
    await _pragma(store, "max_page_count = 1")
    with pytest.raises(StoreUnavailable, match="disk is full") as told:
        await store.note("m-1", "lost", reason=None, detail="x" * (SIZE + 500_000), now=2.0)
    assert isinstance(told.value.__cause__, sqlite3.Error)
    await _pragma(store, "max_page_count = 100000")
    await store.note("m-1", "after", reason=None, detail="", now=3.0)
    assert [event.name for event in await whole_feed(store)] == ["before", "after"]
    await assert_books_balance(store)
    await store.close()


def _room(path: Path) -> tuple[int, int]:
    """Bytes that are free inside the database, and of its log."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        (pages,), (page,) = (
            connection.execute(f"PRAGMA {name}").fetchone() for name in ("freelist_count", "page_size")
        )
        return pages * page, path.with_name(f"{path.name}-wal").stat().st_size


async def test_a_store_keeps_room_for_itself_and_fills_it_up_again(tmp_path: Path) -> None:
    path = tmp_path / "muster.db"
    store = open_sqlite(path, ids=CountingIds())
    assert min(_room(path)) > 7 * 2**20
    for number in range(20):
        await store.note("m-1", "grown", reason=None, detail="x" * 2**20, now=float(number))
    for number in range(LOOK_EVERY):
        await store.note("m-1", "small", reason=None, detail="", now=20.0 + number)
    assert min(_room(path)) >= 4 * 2**20
    await store.close()
    again = open_sqlite(path, ids=CountingIds())
    assert min(_room(path)) >= 4 * 2**20
    await again.close()


async def test_on_a_disk_that_is_short_nothing_new_begins_and_what_ends_something_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_sqlite(tmp_path / "muster.db", ids=CountingIds())
    monkeypatch.setattr(Reserve, "short", lambda _: True)
    with pytest.raises(StoreUnavailable, match="the disk is full; free some space"):
        await store.submit(operation(status=Status.QUEUED), pool=None, fence=None)
    back = operation(kind=Kind.RELEASE, request=RELEASE, status=Status.QUEUED)
    assert (await store.submit(back, pool=None, fence=None))[1]
    await store.close()


@pytest.mark.parametrize("inline", [True, False])
async def test_a_missing_value_is_no_conflict(tmp_path: Path, inline: bool) -> None:
    """A bug must not be taken for a lost race and tried for ever."""
    store = open_sqlite(tmp_path / "muster.db", ids=CountingIds(), inline=inline)
    nothing: Any = None
    with pytest.raises(sqlite3.IntegrityError, match="NOT NULL"):
        await store.note("m-1", "lost", reason=None, detail=nothing, now=1.0)
    await store.note("m-1", "after", reason=None, detail="", now=2.0)
    assert [event.name for event in await whole_feed(store)] == ["after"]
    await store.close()


@pytest.mark.parametrize("inline", [True, False])
async def test_a_read_only_file_is_told_and_survived(tmp_path: Path, inline: bool) -> None:
    store = open_sqlite(tmp_path / "muster.db", ids=CountingIds(), inline=inline)
    await _pragma(store, "query_only = ON")
    with pytest.raises(StoreUnavailable, match="read-only"):
        await store.note("m-1", "lost", reason=None, detail="", now=2.0)
    assert (await store.installation()).max_nodes > 0
    await _pragma(store, "query_only = OFF")
    await store.note("m-1", "after", reason=None, detail="", now=3.0)
    await store.close()


@pytest.mark.parametrize("inline", [True, False])
async def test_a_lock_held_by_another_process_is_told_and_survived(tmp_path: Path, inline: bool) -> None:
    path = tmp_path / "muster.db"
    store = open_sqlite(path, ids=CountingIds(), inline=inline)
    await _pragma(store, "busy_timeout = 0")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="lock"):
        await store.note("m-1", "lost", reason=None, detail="", now=2.0)
    other.execute("ROLLBACK")
    other.close()
    await store.note("m-1", "after", reason=None, detail="", now=3.0)
    await store.close()


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "muster.db"
    path.write_bytes(b"something else entirely " * 100)
    with pytest.raises(StoreUnavailable, match="no SQLite database"):
        open_sqlite(path, ids=CountingIds())
    assert path.read_bytes().startswith(b"something else")


def test_memory_is_refused_where_two_connections_would_differ() -> None:
    with pytest.raises(InvalidRequest, match="must be a file"):
        open_sqlite(":memory:", ids=CountingIds())


def test_a_missing_directory_is_named_as_the_cause(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="directory exists"):
        open_sqlite(tmp_path / "nowhere" / "muster.db", ids=CountingIds())


async def test_what_was_answered_survives_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "muster.db"
    root = Path(__file__).parents[2]
    # The child is killed between two answers, wherever it is by then.
    child = subprocess.Popen(  # noqa: ASYNC220  # nothing else runs on this loop
        [sys.executable, "-c", _WRITER, str(path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(root)},
        text=True,
    )
    assert child.stdout is not None
    answered = [int(child.stdout.readline()) for _ in range(50)]
    child.send_signal(signal.SIGKILL)
    answered += [int(line) for line in child.stdout.read().split("\n")[:-1]]
    child.stdout.close()
    assert child.wait() == -signal.SIGKILL
    store = open_sqlite(path, ids=CountingIds())
    kept = [int(event.detail) for event in await whole_feed(store, page=1000)]
    assert kept[: len(answered)] == answered
    assert len(kept) - len(answered) <= 1, "at most the write that was under way"
    await store.close()


async def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path / "muster.db", ids=CountingIds())
    await store.close()
    await store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.installation()


async def test_commits_are_durable_by_default(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path / "muster.db", ids=CountingIds())
    found = await store._engine.write(
        lambda tx: (tx.execute("PRAGMA synchronous")[0][0], tx.execute("PRAGMA journal_mode")[0][0])
    )
    assert found == (2, "wal")
    await store.close()


async def _pragma(store: Store, pragma: str) -> None:
    assert isinstance(store, SqlStore)
    connection = _writing_connection(store)
    connection.execute(f"PRAGMA {pragma}").fetchall()


def _writing_connection(store: SqlStore) -> sqlite3.Connection:
    engine = store._engine
    writer = engine._writer.runner if isinstance(engine, ThreadedEngine) else engine._writer  # type: ignore[attr-defined]
    connection = getattr(writer, "_connection", None)
    assert isinstance(connection, sqlite3.Connection)
    return connection
