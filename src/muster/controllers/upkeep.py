"""Keep the store right and small: recount, prune, sample."""

import logging

from muster.domain import undelivered
from muster.domain.pool_history import KEPT, sampled
from muster.domain.settings import Settings
from muster.ports.bundle import Ports

logger = logging.getLogger(__name__)

BATCH = 1000
BITES = 500
"""Bites per pass, so that a pass after a long absence ends too."""


class Auditor:
    """Recount the nodes and launches that the caps count. A difference is a bug."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def reconcile(self) -> None:
        """Log each difference. The store corrects the counter and appends the event."""
        for drift in await self._ports.store.audit(now=self._ports.clock.now()):
            logger.error(
                "counter drift",
                extra={"scope": drift.scope, "counted": drift.counted, "stored": drift.stored},
            )


class Pruner:
    """Delete records that ended long ago, in bounded batches."""

    def __init__(self, ports: Ports, settings: Settings) -> None:
        self._ports = ports
        self._retention = settings.retention

    async def reconcile(self) -> None:
        now = self._ports.clock.now()
        await self._ports.messages.prune_undelivered(before=now - undelivered.KEPT)
        before = now - self._retention
        for _ in range(BITES):
            pruned = await self._ports.store.prune(before=before, limit=BATCH)
            if not pruned.more:
                return


class PoolSampler:
    """Keep a sample of all pools each minute, for the chart of a day. Forgets samples older than that."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def reconcile(self) -> None:
        now = self._ports.clock.now()
        census = await self._ports.overview.census()
        sample = sampled(census, await self._ports.store.templates(), now=now)
        await self._ports.store.keep_sample(sample, before=now - KEPT)
