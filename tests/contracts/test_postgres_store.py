"""The contracts of all store ports, run against PostgreSQL with all its connections."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

from muster.ports.access import AccessStore
from muster.ports.cluster_store import ClusterStore
from muster.ports.commands import CommandStore
from muster.ports.jobs import JobStore
from muster.ports.messages import MessageStore
from muster.ports.overview import OverviewStore
from muster.ports.store import Store
from muster.stores.sql import SqlStore
from muster.stores.sql.postgres.store import open_postgres
from tests.contracts.access_contract import AccessContract
from tests.contracts.bites_contract import BitesContract
from tests.contracts.cluster_contract import ClusterStoreContract
from tests.contracts.command_contract import CommandContract
from tests.contracts.job_contract import JobStoreContract
from tests.contracts.message_contract import MessageContract
from tests.contracts.overview_contract import OverviewContract
from tests.contracts.store_contract import StoreContract
from tests.contracts.test_sqlite_store import falsify
from tests.stores import postgres
from tests.stores.ids import CountingIds


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[str, SqlStore]]:
    """One store for all of them: its threads belong to no event loop."""
    address = postgres.fresh()
    store = open_postgres(address, ids=CountingIds())
    yield address, store
    asyncio.run(store.close())


@pytest.fixture
async def emptied(shared: tuple[str, SqlStore]) -> AsyncIterator[SqlStore]:
    address, store = shared
    yield store
    postgres.wipe(address)


class TestPostgresStore(StoreContract):
    @pytest.fixture
    def fresh(self, emptied: SqlStore) -> Store:
        return emptied

    @pytest.fixture
    def corrupt(self) -> Callable[[Store, int], Awaitable[None]]:
        return falsify


class TestPostgresOtherPorts(
    CommandContract,
    BitesContract,
    AccessContract,
    OverviewContract,
    ClusterStoreContract,
    JobStoreContract,
    MessageContract,
):
    @pytest.fixture
    def store(self, emptied: SqlStore) -> Store:
        return emptied

    @pytest.fixture
    def commands(self, emptied: SqlStore) -> CommandStore:
        return emptied.commands

    @pytest.fixture
    def access(self, emptied: SqlStore) -> AccessStore:
        return emptied.access

    @pytest.fixture
    def clusters(self, emptied: SqlStore) -> ClusterStore:
        return emptied.clusters

    @pytest.fixture
    def jobs(self, emptied: SqlStore) -> JobStore:
        return emptied.jobs

    @pytest.fixture
    def messages(self, emptied: SqlStore) -> MessageStore:
        return emptied.messages

    @pytest.fixture
    def overview(self, emptied: SqlStore) -> OverviewStore:
        return emptied.overview
