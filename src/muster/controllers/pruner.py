"""Delete records that ended long ago, in bounded batches."""

from muster.domain.settings import Settings
from muster.ports.bundle import Ports

BATCH = 1000
BITES = 500
"""Bites per pass, so that a pass after a long absence ends too."""


class Pruner:
    def __init__(self, ports: Ports, settings: Settings) -> None:
        self._ports = ports
        self._retention = settings.retention

    async def reconcile(self) -> None:
        before = self._ports.clock.now() - self._retention
        for _ in range(BITES):
            pruned = await self._ports.store.prune(before=before, limit=BATCH)
            if not pruned.more:
                return
