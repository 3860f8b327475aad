"""Claims that wait at the same moment share a statement, on SQLite too."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from muster.domain.matching import Demand
from muster.stores.claim_batcher import Ask, End
from muster.stores.sql import claims, open_sqlite
from muster.stores.sql.tx import Tx
from tests.contracts.store_contract.records import Records
from tests.stores.ids import CountingIds

TOGETHER = 16


async def test_claims_that_wait_at_the_same_moment_share_one_statement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    claim_together = claims.claim_together

    def counting(tx: Tx, demand: Demand, asks: Sequence[Ask]) -> Sequence[End]:
        sizes.append(len(asks))
        return claim_together(tx, demand, asks)

    monkeypatch.setattr(claims, "claim_together", counting)
    store = open_sqlite(tmp_path / "muster.db", ids=CountingIds())
    records = Records(store)
    await records.idle(TOGETHER)
    operations = [await records.leased() for _ in range(TOGETHER)]
    taken = await asyncio.gather(*(records.claim(operation, 1) for operation in operations))
    await store.close()

    assert sizes == [TOGETHER]
    assert len(dict.fromkeys(node.id for nodes in taken for node in nodes)) == TOGETHER
