"""Probe services from outside and store the results. Judges no health.

Probes run at once, each with a time limit, so that one that hangs delays no other. They are spread over
half of a round.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from muster.domain.ids import NodeId
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.settings import Settings
from muster.domain.template import Runtime
from muster.ports.bundle import Ports
from muster.ports.paging import every_node
from muster.ports.probe import Prober

AT_ONCE = 256
TOGETHER = 4
"""Probes that begin in one moment."""
_SERVING = (NodeState.CREATED, NodeState.RUNNING)


class ServiceProbes:
    def __init__(self, ports: Ports, prober: Prober, settings: Settings) -> None:
        self._ports = ports
        self._prober = prober
        self._store = ports.store
        self._timeout = settings.limits.probe_timeout
        self.spread = settings.limits.probe_every / 2
        """Seconds over which a round's probes begin."""

    async def reconcile(self) -> None:
        found = [(node.id, node.address) async for node in self._services()]
        places = asyncio.Semaphore(AT_ONCE)

        async def one(node_id: NodeId, address: str) -> None:
            passed = False
            async with places:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._timeout):
                        passed = await self._prober.passes(address)
            await self._store.record_probe(node_id, passed=passed, now=self._ports.clock.now())

        async with asyncio.TaskGroup() as group:
            for number, service in enumerate(found):
                group.create_task(one(*service))
                if number % TOGETHER == TOGETHER - 1:
                    await self._ports.clock.sleep(self.spread * TOGETHER / len(found))

    async def _services(self) -> AsyncIterator[Node]:
        for template in await self._store.templates():
            if template.spec.runtime != Runtime.SERVICE:
                continue
            async for node in every_node(self._store, states=_SERVING, template=template.name):
                if node.address:
                    yield node
