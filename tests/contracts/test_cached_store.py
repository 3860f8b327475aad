"""The store contract, run against a store that is answered from memory by a replica alone on it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pytest

from muster.ports.commits import Written
from muster.ports.store import Store
from muster.stores.cache import CachedStore
from muster.stores.sql import open_sqlite
from tests.contracts.store_contract import StoreContract
from tests.contracts.test_sqlite_store import falsify
from tests.stores.ids import CountingIds
from tests.stores.test_cache import Minute


class TestCachedSqlite(StoreContract):
    @pytest.fixture
    async def fresh(self) -> AsyncIterator[Store]:
        caches: list[CachedStore] = []

        def committed(written: Sequence[Written]) -> None:
            for cache in caches:
                cache.saw(written)

        store = open_sqlite(":memory:", ids=CountingIds(), inline=True, after_commit=committed)
        caches.append(CachedStore(store, Minute(), alone=True))
        yield caches[0].as_store()
        await store.close()

    @pytest.fixture
    def corrupt(self) -> Callable[[Store, int], Awaitable[None]]:
        async def falsified(store: Store, by: int) -> None:
            assert isinstance(store, CachedStore)
            await falsify(store._inner, by)

        return falsified
