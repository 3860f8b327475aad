"""Probe services, and hand over apps that provably serve."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from muster.domain import app as apps
from muster.domain.errors import Conflict
from muster.domain.health import Vitals
from muster.domain.ids import NodeId
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.settings import Settings
from muster.domain.template import Runtime, Template
from muster.ports.bundle import Ports
from muster.ports.paging import every_node, node_pages
from muster.ports.probe import Prober

AT_ONCE = 256
TOGETHER = 4
"""Probes that begin in one moment."""
_SERVING = (NodeState.CREATED, NodeState.RUNNING)


class ServiceProbes:
    """Probe services from outside and store the results. Judges no health.

    Probes run at once, each with a time limit, so that one that hangs delays no other. They are spread over
    half of a round.
    """

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


class HandOvers:
    """Hand over apps that provably serve, whether they report it or not.

    Owns the hand-over by evidence: a fresh heartbeat after the start, a passed probe, the app's own status.
    An app that reports is handed over by `enrolment`; the guarded write decides which of the two is first.
    """

    def __init__(self, ports: Ports, settings: Settings) -> None:
        self._ports = ports
        self._store = ports.store
        self._limits = settings.limits

    async def reconcile(self) -> None:
        for template in await self._store.templates():
            if template.spec.enrols:
                await self._look_at(template)

    async def _look_at(self, template: Template) -> None:
        async for page in node_pages(self._store, states=(NodeState.CREATED,), template=template.name):
            vitals = await self._store.vitals([node.id for node in page.items]) if page.items else {}
            now = self._ports.clock.now()
            for node in page.items:
                if node.id in vitals:
                    await self._hand_over(node, vitals[node.id], now)

    async def _hand_over(self, node: Node, vitals: Vitals, now: float) -> None:
        change = apps.hand_over(node, vitals, now=now, limits=self._limits)
        if change is None:
            return
        with suppress(Conflict):  # it reported, or left: the next look decides
            await self._store.apply(change)
