"""SQLite's file: damage is found at the start, what pruning frees goes back, memory is bounded."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from muster.domain.errors import StoreUnavailable
from muster.stores.sql import open_sqlite, sqlite, vacuum
from muster.stores.sql.disk_reserve import SIZE, SPARE, spare_of
from muster.stores.sql.vacuum import BITE, Vacuum, convert
from tests.stores.ids import CountingIds

MIB = 1024 * 1024


async def filled(path: Path, mib: int) -> None:
    store = open_sqlite(path, ids=CountingIds())
    for number in range(mib):
        await store.note("m-1", "written", reason=None, detail="x" * MIB, now=float(number))
    await store.close()


def pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)


async def test_one_damaged_page_is_found_at_the_start_and_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "muster.db"
    await filled(path, 1)
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'events'").fetchone()
        page = pragma(connection, "page_size")
    with path.open("r+b") as file:
        file.seek((root - 1) * page)
        file.write(b"\xa5" * page)
    before = path.read_bytes()
    with pytest.raises(StoreUnavailable, match="damaged") as told:
        open_sqlite(path, ids=CountingIds())
    assert str(path) in str(told.value) and "latest backup" in str(told.value)
    assert path.read_bytes() == before


async def test_the_check_at_the_start_ends_in_time(tmp_path: Path) -> None:
    path = tmp_path / "muster.db"
    await filled(path, 1)
    with closing(sqlite.connect(path)) as connection:
        connection.execute("CREATE TABLE much AS SELECT 1 FROM events")
        for _ in range(17):  # 131,072 rows: more than one look at the clock
            connection.execute("INSERT INTO much SELECT * FROM much")
        sqlite.check(connection, path, within=-1.0)  # no time at all: it ends, and finds nothing
        sqlite.check(connection, path)
        assert connection.execute("SELECT count(*) FROM much").fetchone()[0] == 2**17, (
            "the clock is off again"
        )


async def test_what_pruning_frees_goes_back_to_the_disk_in_bites_and_the_reserve_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vacuum, "EVERY", 0.0)
    path = tmp_path / "muster.db"
    await filled(path, 40)
    with closing(sqlite.connect(path)) as connection:
        connection.execute("DELETE FROM events")
        shrinking, page = Vacuum(connection), pragma(connection, "page_size")
        large, free = pragma(connection, "page_count"), pragma(connection, "freelist_count")
        assert shrinking.step()
        assert free - pragma(connection, "freelist_count") == BITE
        while shrinking.step():
            pass
        assert pragma(connection, "freelist_count") * page == vacuum.KEPT >= SIZE
        assert pragma(connection, "page_count") < large - 20 * MIB // page
    assert path.stat().st_size < 24 * MIB


async def test_a_server_that_works_shrinks_its_file_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vacuum, "EVERY", 0.0)
    path = tmp_path / "muster.db"
    await filled(path, 40)
    assert path.stat().st_size > 40 * MIB
    store = open_sqlite(path, ids=CountingIds())
    await store.prune(before=1e9, limit=1000)
    for number in range(2000):  # each write is followed by a bite, as long as there is one
        await store.note("m-2", "written", reason=None, detail="", now=1e9 + number)
        if path.stat().st_size < 28 * MIB:
            break
    await store.close()
    assert path.stat().st_size < 28 * MIB


def test_a_file_from_before_learns_to_shrink(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE kept AS SELECT 1 AS value")
        assert pragma(connection, "auto_vacuum") == 0
        with monkeypatch.context() as too_large:
            too_large.setattr(vacuum, "CONVERTED_MOST", 0)
            convert(connection, path)
        assert "never shrinks" in caplog.text and pragma(connection, "auto_vacuum") == 0
        convert(connection, path)
        assert pragma(connection, "auto_vacuum") == 2
        assert connection.execute("SELECT value FROM kept").fetchall() == [(1,)]


async def test_what_is_kept_in_memory_is_bounded_for_all_connections_together(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path / "muster.db", ids=CountingIds(), cache_mib=10)

    def size(tx: object) -> int:
        return int(tx.execute("PRAGMA cache_size")[0][0])  # type: ignore[attr-defined]

    engine = store._engine
    assert [await engine.write(size), await engine.read(size)] == [-(10 * 1024 // 3)] * 2
    await store.close()


async def test_spare_room_is_kept_beside_the_file_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "muster.db"
    await filled(path, 0)
    spare = spare_of(path)
    assert (spare.stat().st_size, spare.stat().st_mode & 0o777) == (SPARE, 0o600)
