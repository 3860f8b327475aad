"""Delete records that ended long ago, in bounded batches."""

from muster.domain.settings import Settings
from muster.domain.undelivered import KEPT
from muster.ports.bundle import Ports

BATCH = 1000
BITES = 500
"""Bites per pass, so that a pass after a long absence ends too."""


class Pruner:
    def __init__(self, ports: Ports, settings: Settings) -> None:
        self._ports = ports
        self._retention = settings.retention

    async def reconcile(self) -> None:
        now = self._ports.clock.now()
        await self._ports.messages.prune_undelivered(before=now - KEPT)
        before = now - self._retention
        for _ in range(BITES):
            pruned = await self._ports.store.prune(before=before, limit=BATCH)
            if not pruned.more:
                return
