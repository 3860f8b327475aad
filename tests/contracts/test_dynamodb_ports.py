"""The contracts of the smaller ports, run against DynamoDB as an emulator gives it."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from muster.domain.command import Command
from muster.domain.node import Node
from muster.ports.access import AccessStore
from muster.ports.cluster_store import ClusterStore
from muster.ports.commands import CommandStore
from muster.ports.jobs import JobStore
from muster.ports.messages import MessageStore
from muster.ports.overview import OverviewStore
from muster.ports.store import Store
from muster.stores.dynamodb import AwsClient, DynamoStore
from tests.contracts.access_contract import AccessContract
from tests.contracts.cluster_contract import ClusterStoreContract
from tests.contracts.command_contract import CommandContract, provisioned, start
from tests.contracts.job_contract import JobStoreContract
from tests.contracts.message_contract import MessageContract
from tests.contracts.overview_contract import OverviewContract
from tests.stores.emulator import over, wired


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def aws() -> AsyncIterator[AwsClient]:
    async with wired() as aws:
        yield aws


@pytest.mark.asyncio(loop_scope="module")
class TestDynamoDB(
    CommandContract, AccessContract, OverviewContract, ClusterStoreContract, JobStoreContract, MessageContract
):
    @pytest_asyncio.fixture(loop_scope="module")
    async def dynamodb(self, aws: AwsClient) -> DynamoStore:
        return await over(aws)

    @pytest.fixture
    def store(self, dynamodb: DynamoStore) -> Store:
        return dynamodb

    @pytest.fixture
    def commands(self, dynamodb: DynamoStore) -> CommandStore:
        return dynamodb.commands

    @pytest.fixture
    def access(self, dynamodb: DynamoStore) -> AccessStore:
        return dynamodb.access

    @pytest.fixture
    def overview(self, dynamodb: DynamoStore) -> OverviewStore:
        return dynamodb.overview

    @pytest.fixture
    def clusters(self, dynamodb: DynamoStore) -> ClusterStore:
        return dynamodb.clusters

    @pytest.fixture
    def jobs(self, dynamodb: DynamoStore) -> JobStore:
        return dynamodb.jobs

    @pytest.fixture
    def messages(self, dynamodb: DynamoStore) -> MessageStore:
        return dynamodb.messages

    @pytest_asyncio.fixture(loop_scope="module")
    async def node(self, store: Store) -> Node:  # type: ignore[override]  # its loop
        _, (node,) = await provisioned(store)
        return node

    @pytest_asyncio.fixture(loop_scope="module")
    async def command(  # type: ignore[override]  # its loop
        self, store: Store, commands: CommandStore, node: Node
    ) -> Command:
        return await start(store, commands, node)
