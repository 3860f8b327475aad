"""The contract of the cluster store, run against SQLite: inline in memory, and threaded on a file."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster.ports.cluster_store import ClusterStore
from muster.ports.store import Store
from muster.stores.sql import SqlStore, open_sqlite
from tests.contracts.cluster_contract import ClusterStoreContract
from tests.stores.ids import CountingIds


class SqliteContract(ClusterStoreContract):
    @pytest.fixture
    def store(self, sqlite: SqlStore) -> Store:
        return sqlite

    @pytest.fixture
    def clusters(self, sqlite: SqlStore) -> ClusterStore:
        return sqlite.clusters


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
