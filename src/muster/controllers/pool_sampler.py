"""Keep a sample of all pools each minute, for the chart of a day. Forgets samples older than that."""

from muster.domain.pool_history import KEPT, sampled
from muster.ports.bundle import Ports


class PoolSampler:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def reconcile(self) -> None:
        now = self._ports.clock.now()
        census = await self._ports.overview.census()
        sample = sampled(census, await self._ports.store.templates(), now=now)
        await self._ports.store.keep_sample(sample, before=now - KEPT)
