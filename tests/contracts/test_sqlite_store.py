"""The store contract, run against SQLite: inline in memory, and threaded on a file."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from muster.ports.store import Store
from muster.stores.sql import SqlStore, open_sqlite
from tests.contracts.store_contract import StoreContract
from tests.stores.files import open_store
from tests.stores.ids import CountingIds


async def falsify(store: Store, by: int) -> None:
    assert isinstance(store, SqlStore)
    await store._engine.write(lambda tx: tx.change("UPDATE counters SET used = used + :by", {"by": by}))


class SqliteContract(StoreContract):
    @pytest.fixture
    def corrupt(self) -> Callable[[Store, int], Awaitable[None]]:
        return falsify


class TestSqliteInline(SqliteContract):
    @pytest.fixture
    async def fresh(self) -> AsyncIterator[Store]:
        store = open_sqlite(":memory:", ids=CountingIds(), inline=True)
        yield store
        await store.close()


class TestSqliteThreaded(SqliteContract):
    @pytest.fixture
    async def fresh(self, tmp_path: Path) -> AsyncIterator[Store]:
        store = open_store(tmp_path / "muster.db", ids=CountingIds())
        yield store
        await store.close()
