"""The contracts of the command and access ports, run against SQLite: inline in memory, threaded on a file."""

import re
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster.ports.access import AccessStore
from muster.ports.commands import CommandStore
from muster.ports.store import Store
from muster.stores.sql import SqlStore, open_sqlite
from muster.stores.sql import commands as statements
from tests.contracts.access_contract import AccessContract
from tests.contracts.command_contract import CommandContract
from tests.stores.ids import CountingIds


class SqliteContract(CommandContract, AccessContract):
    @pytest.fixture
    def store(self, sqlite: SqlStore) -> Store:
        return sqlite

    @pytest.fixture
    def commands(self, sqlite: SqlStore) -> CommandStore:
        return sqlite.commands

    @pytest.fixture
    def access(self, sqlite: SqlStore) -> AccessStore:
        return sqlite.access


class TestSqliteInline(SqliteContract):
    @pytest.fixture
    async def sqlite(self) -> AsyncIterator[SqlStore]:
        store = open_sqlite(":memory:", ids=CountingIds(), inline=True)
        yield store
        await store.close()


class TestSqliteThreaded(SqliteContract):
    @pytest.fixture
    async def sqlite(self, tmp_path: Path) -> AsyncIterator[SqlStore]:
        store = open_sqlite(tmp_path / "muster.db", ids=CountingIds())
        yield store
        await store.close()


HOT = {
    "commands of a provision": statements.OF_OPERATION,
    "unfinished commands": statements.UNFINISHED,
    "forsaken commands": statements.FORSAKEN,
    "output": statements.READ,
    "commands": statements.listing(by_run=False, paged=True),
    "commands of a run": statements.listing(by_run=True, paged=False),
    "more commands of a run": statements.listing(by_run=True, paged=True),
}


@pytest.mark.parametrize("name", HOT)
async def test_a_statement_reads_an_index_in_order(tmp_path: Path, name: str) -> None:
    path = tmp_path / "muster.db"
    await open_sqlite(path, ids=CountingIds(), inline=True).close()
    sql = HOT[name]
    connection = sqlite3.connect(path)
    params = dict.fromkeys(re.findall(r":(\w+)", sql), 0)
    steps = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", params)]
    connection.close()
    unordered = [step for step in steps if "TEMP B-TREE" in step or re.match(r"SCAN \w+$", step)]
    assert unordered == []
    if ":run" in sql:
        assert any("commands_run" in step for step in steps)
