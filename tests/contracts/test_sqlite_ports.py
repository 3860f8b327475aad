"""The contracts of the smaller ports, run against SQLite: inline in memory, and threaded on a file."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster.ports.access import AccessStore
from muster.ports.cluster_store import ClusterStore
from muster.ports.commands import CommandStore
from muster.ports.jobs import JobStore
from muster.ports.messages import MessageStore
from muster.ports.overview import OverviewStore
from muster.ports.store import Store
from muster.stores.sql import SqlStore, open_sqlite
from tests.contracts.access_contract import AccessContract
from tests.contracts.bites_contract import BitesContract
from tests.contracts.cluster_contract import ClusterStoreContract
from tests.contracts.command_contract import CommandContract
from tests.contracts.job_contract import JobStoreContract
from tests.contracts.message_contract import MessageContract
from tests.contracts.overview_contract import OverviewContract
from tests.stores.files import open_store
from tests.stores.ids import CountingIds


class SqliteContract(
    CommandContract, AccessContract, OverviewContract, ClusterStoreContract, JobStoreContract, MessageContract
):
    @pytest.fixture
    def store(self, sqlite: SqlStore) -> Store:
        return sqlite

    @pytest.fixture
    def commands(self, sqlite: SqlStore) -> CommandStore:
        return sqlite.commands

    @pytest.fixture
    def access(self, sqlite: SqlStore) -> AccessStore:
        return sqlite.access

    @pytest.fixture
    def overview(self, sqlite: SqlStore) -> OverviewStore:
        return sqlite.overview

    @pytest.fixture
    def clusters(self, sqlite: SqlStore) -> ClusterStore:
        return sqlite.clusters

    @pytest.fixture
    def jobs(self, sqlite: SqlStore) -> JobStore:
        return sqlite.jobs

    @pytest.fixture
    def messages(self, sqlite: SqlStore) -> MessageStore:
        return sqlite.messages


class TestSqliteInline(SqliteContract, BitesContract):
    @pytest.fixture
    async def sqlite(self) -> AsyncIterator[SqlStore]:
        store = open_sqlite(":memory:", ids=CountingIds(), inline=True)
        yield store
        await store.close()


class TestSqliteThreaded(SqliteContract):
    @pytest.fixture
    async def sqlite(self, tmp_path: Path) -> AsyncIterator[SqlStore]:
        store = open_store(tmp_path / "muster.db", ids=CountingIds())
        yield store
        await store.close()
