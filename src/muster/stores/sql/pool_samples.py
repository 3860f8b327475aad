"""Samples of the pools: one row per minute, in the table pool_samples."""

from collections.abc import Sequence

from muster.domain import serialization
from muster.domain.pool_history import PoolSample
from muster.stores.sql.rows import from_json, to_json
from muster.stores.sql.tx import Tx

_KEEP = """
    INSERT INTO pool_samples (at, sample) VALUES (:at, :sample)
    ON CONFLICT (at) DO UPDATE SET sample = excluded.sample
"""
_SINCE = "SELECT sample FROM pool_samples WHERE at >= :since ORDER BY at LIMIT :limit"


def keep(tx: Tx, sample: PoolSample, *, before: float) -> None:
    tx.change(_KEEP, {"at": sample.at, "sample": to_json(serialization.to_plain(sample))})
    tx.change("DELETE FROM pool_samples WHERE at < :before", {"before": before})


def since(tx: Tx, *, since: float, limit: int) -> Sequence[PoolSample]:
    found = tx.execute(_SINCE, {"since": since, "limit": limit})
    return [serialization.from_plain(PoolSample, from_json(sample)) for (sample,) in found]
