"""The store contract, run against DynamoDB and SQS as an emulator gives them."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from muster.ports.store import Store
from muster.stores.dynamodb import AwsClient, DynamoStore
from tests.contracts.store_contract import StoreContract
from tests.contracts.store_contract.bookkeeping import assert_books_balance
from tests.stores.emulator import over, wired


async def _falsify(store: Store, by: int) -> None:
    assert isinstance(store, DynamoStore)
    for item in await store._table.query("COUNT"):
        key = (str(item["PK"]), str(item["SK"]))
        await store._table.update(key, "ADD #used :by", where="attribute_exists(#PK)", values={"by": by})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def aws() -> AsyncIterator[AwsClient]:
    async with wired() as aws:
        yield aws


@pytest.mark.asyncio(loop_scope="module")
class TestDynamoDB(StoreContract):
    GANG = 50
    POOL = 80  # each of them is made by a dozen calls

    @pytest.fixture
    def corrupt(self) -> Callable[[Store, int], Awaitable[None]]:
        return _falsify

    @pytest_asyncio.fixture(loop_scope="module")
    async def store(self, aws: AwsClient) -> AsyncIterator[Store]:  # type: ignore[override]  # its loop
        store = await over(aws)
        yield store
        await assert_books_balance(store)
