"""The contract of the store port as code: every adapter runs it unchanged.

An adapter's test module subclasses `StoreContract` and gives it two fixtures: `fresh` (an empty store) and
`corrupt` (a function that falsifies the counters). After every test the counters must equal what they count,
and the event log must rebuild every record.
"""

from collections.abc import AsyncIterator

import pytest

from muster.ports.store import Store
from tests.contracts.store_contract.bookkeeping import assert_books_balance
from tests.contracts.store_contract.claims import ClaimContract
from tests.contracts.store_contract.enrolling import EnrolContract
from tests.contracts.store_contract.feed import FeedContract
from tests.contracts.store_contract.launches import LaunchContract
from tests.contracts.store_contract.leases import LeaseContract
from tests.contracts.store_contract.nodes import NodeContract
from tests.contracts.store_contract.operations import OperationContract
from tests.contracts.store_contract.upkeep import UpkeepContract
from tests.contracts.store_contract.vitals import VitalsContract


class StoreContract(
    NodeContract,
    ClaimContract,
    EnrolContract,
    LaunchContract,
    OperationContract,
    LeaseContract,
    FeedContract,
    UpkeepContract,
    VitalsContract,
):
    @pytest.fixture
    async def store(self, fresh: Store) -> AsyncIterator[Store]:
        yield fresh
        await assert_books_balance(fresh)
