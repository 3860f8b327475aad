import sqlite3
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from muster.domain.cluster import Cluster
from muster.domain.errors import StoreUnavailable
from muster.domain.job_figures import SourceCounts
from muster.domain.jobs import Job
from muster.domain.launch import Launch
from muster.domain.node import Node
from muster.domain.operation import Operation
from muster.stores.sql import open_sqlite, schema
from muster.stores.sql.schema import LATEST, MIGRATIONS, Migration
from muster.stores.sql.sqlite import Writer, connect
from tests.stores.ids import CountingIds


def _shape(path: Path) -> list[Any]:
    with sqlite3.connect(path) as connection:
        found = connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY type, name").fetchall()
    connection.close()
    return found


def _at_version(path: Path, version: int) -> None:
    """A store as a program that knew only so many migrations left it."""
    writer = Writer(connect(path))
    for upto in range(1, version + 1):
        (end,), _written = writer.run([partial(schema.advance, upto=upto)])
        assert end.error is None and end.value is True
    writer.close()


def test_migrations_are_numbered_without_gaps() -> None:
    assert [migration.version for migration in MIGRATIONS] == list(range(1, LATEST + 1))


@pytest.mark.parametrize("version", range(LATEST + 1))
async def test_a_store_of_any_earlier_version_becomes_like_a_new_one(tmp_path: Path, version: int) -> None:
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    _at_version(old, version)
    for path in (old, new):
        await open_sqlite(path, ids=CountingIds(), inline=True).close()
    assert _shape(old) == _shape(new)


async def test_opening_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "muster.db"
    store = open_sqlite(path, ids=CountingIds(), inline=True)
    first = await store.installation()
    await store.close()
    ids = CountingIds()
    ids.new("other")
    store = open_sqlite(path, ids=ids, inline=True)
    assert await store.installation() == first
    await store.close()


async def test_a_schema_newer_than_the_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "muster.db"
    await open_sqlite(path, ids=CountingIds(), inline=True).close()
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO schema_migrations VALUES (?, 'later')", (LATEST + 1,))
    connection.close()
    before = _shape(path)
    with pytest.raises(StoreUnavailable, match=f"version {LATEST + 1}"):
        open_sqlite(path, ids=CountingIds())
    assert _shape(path) == before


@pytest.mark.parametrize("new", [False, True])
async def test_a_migration_that_fails_halfway_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new: bool
) -> None:
    """Of a new store, none of the earlier ones either."""
    path = tmp_path / "muster.db"
    if not new:
        await open_sqlite(path, ids=CountingIds(), inline=True).close()
    before = _shape(path)
    broken = Migration(
        version=LATEST + 1, name="broken", statements=("CREATE TABLE extra (id TEXT)", "CREATE nonsense")
    )
    monkeypatch.setattr(schema, "MIGRATIONS", (*MIGRATIONS, broken))
    monkeypatch.setattr(schema.advance, "__kwdefaults__", {"upto": LATEST + 1})
    monkeypatch.setattr(schema, "LATEST", LATEST + 1)
    with pytest.raises(sqlite3.OperationalError, match="nonsense"):
        open_sqlite(path, ids=CountingIds(), inline=True)
    assert _shape(path) == before


@pytest.mark.parametrize(
    ("table", "cls", "derived"),
    [
        ("nodes", Node, []),
        ("launches", Launch, []),
        ("operations", Operation, ["waiting_owner"]),
        ("clusters", Cluster, []),
        ("jobs", Job, []),
        ("job_sources", SourceCounts, []),
    ],
)
async def test_columns_are_the_fields_of_the_record_and_what_is_derived_of_them(
    tmp_path: Path, table: str, cls: Any, derived: list[str]
) -> None:
    path = tmp_path / "muster.db"
    await open_sqlite(path, ids=CountingIds(), inline=True).close()
    with sqlite3.connect(path) as connection:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    connection.close()
    assert sorted(columns) == sorted([*(field.name for field in fields(cls)), *derived])
    assert all(isinstance(getattr(cls, name), property) for name in derived)
