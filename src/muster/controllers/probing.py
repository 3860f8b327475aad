"""Probing: asks services from outside whether they serve, and writes down how it went. It judges nobody.

Many at once, each bounded in time, so that one that doesn't answer holds up no other.
"""

import asyncio
from collections.abc import Sequence

from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.template import Runtime
from muster.ports.bundle import Ports
from muster.ports.probe import Prober

BATCH = 500
AT_ONCE = 256


class Probing:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._store = ports.store

    async def reconcile(self) -> None:
        prober = self._ports.prober
        if prober is None:
            return
        for template in await self._store.templates():
            if template.spec.runtime is Runtime.SERVICE:
                await self._probe_all(prober, template.name)

    async def _probe_all(self, prober: Prober, template: str) -> None:
        cursor = None
        while True:
            page = await self._store.nodes(
                states=(NodeState.CREATED, NodeState.RUNNING), template=template, after=cursor, limit=BATCH
            )
            await self._probe(prober, [node for node in page.items if node.address])
            cursor = page.next
            if cursor is None:
                return

    async def _probe(self, prober: Prober, nodes: Sequence[Node]) -> None:
        places = asyncio.Semaphore(AT_ONCE)

        async def one(node: Node) -> None:
            async with places:
                passed = await prober.passes(node.address)
            await self._store.record_probe(node.id, passed=passed, now=self._ports.clock.now())

        async with asyncio.TaskGroup() as group:
            for node in nodes:
                group.create_task(one(node))
