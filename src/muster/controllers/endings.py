"""Condemn nodes whose machine has ended, from providers that report it at once.

Each replica listens to its own providers, so this is not a leased duty. A booting node is left to the boot
watch, which reports the cause; a terminating one to the reaper. Both are woken.
"""

import asyncio
import logging

from muster.domain import node as nodes
from muster.domain.errors import Conflict, ProviderError, StoreUnavailable
from muster.domain.lifecycle import LIVE, NodeState
from muster.domain.node import Node
from muster.ports.bundle import Ports
from muster.ports.provider import EndingsSource, Machine
from muster.ports.wakeups import ENDED

logger = logging.getLogger(__name__)

PAUSE = 1.0
"""Seconds after a failure, and between attempts at a machine whose record isn't written yet."""
ATTEMPTS = 30
"""More than a launch takes to be settled. After that, the duty `vanished` finds the machine."""


class EndingsListener:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._store = ports.store

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for source in self._ports.endings:
                group.create_task(self._listen(source))

    async def _listen(self, source: EndingsSource) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    for machine in await source.ended():
                        group.create_task(self._act(source.name, machine))
                except ProviderError as error:
                    logger.info("cannot listen now", extra={"provider": source.name, "error": repr(error)})
                    await self._ports.clock.sleep(PAUSE)

    async def _act(self, provider: str, machine: Machine) -> None:
        for _ in range(ATTEMPTS):
            try:
                node = await self._store.node_by_machine(provider, machine.id)
                if node is not None and await self._done(node, machine):
                    self._ports.wakeups.notify(ENDED)
                    return
            except StoreUnavailable as error:
                logger.info("cannot act on an ending now", extra={"provider": provider, "error": repr(error)})
            await self._ports.clock.sleep(PAUSE)

    async def _done(self, node: Node, machine: Machine) -> bool:
        if node.state not in LIVE or (node.state is NodeState.CREATED and node.booted_at is None):
            return True
        why = f": {machine.why}" if machine.why else ""
        change = nodes.condemn(
            node,
            now=self._ports.clock.now(),
            reason=machine.reason,
            detail=f"machine {machine.id} of {node.provider} has ended{why}",
        )
        try:
            await self._store.apply(change)
        except Conflict:
            return False
        return True
