"""Vanished: nodes whose machine the provider no longer lists. Twice, past the window, and without a beat."""

import logging

from muster.domain import node as nodes
from muster.domain.errors import Conflict, ProviderError
from muster.domain.ids import NodeId
from muster.domain.lifecycle import LIVE
from muster.domain.node import Node
from muster.domain.reasons import Reason
from muster.domain.settings import Settings
from muster.ports.bundle import Ports
from muster.ports.provider import NodeProvider

logger = logging.getLogger(__name__)

BATCH = 500
STRIKES = 2


class Vanished:
    def __init__(self, ports: Ports, settings: Settings) -> None:
        self._ports = ports
        self._store = ports.store
        self._stale_after = settings.limits.stale_after
        self._strikes: dict[NodeId, int] = {}

    async def reconcile(self) -> None:
        listed: dict[str, dict[str, bool]] = {}
        for name in sorted(self._ports.providers):
            try:
                listed[name] = {machine.id: True async for machine in self._ports.providers[name].list()}
            except ProviderError as error:
                # What can't be listed hasn't vanished, and the others' nodes are judged all the same.
                logger.info("cannot list now", extra={"provider": name, "error": repr(error)})
        strikes: dict[NodeId, int] = {}
        cursor = None
        while True:
            page = await self._store.nodes(states=LIVE, template=None, after=cursor, limit=BATCH)
            missing = [
                node
                for node in page.items
                if node.provider in listed and node.machine_id not in listed[node.provider]
            ]
            for node in await self._silent(missing):
                strikes[node.id] = self._strikes.get(node.id, 0) + 1
                if strikes[node.id] >= STRIKES:
                    await self._condemn(node)
            cursor = page.next
            if cursor is None:
                break
        self._strikes = strikes

    async def _silent(self, missing: list[Node]) -> list[Node]:
        """Old enough to be visible, and without a fresh heartbeat."""
        if not missing:
            return []
        now = self._ports.clock.now()
        seen = await self._store.last_seen([node.id for node in missing])
        return [
            node
            for node in missing
            if now >= node.created_at + self._provider(node).visibility_window
            and now - seen.get(node.id, 0.0) > self._stale_after
        ]

    def _provider(self, node: Node) -> NodeProvider:
        return self._ports.providers[node.provider]

    async def _condemn(self, node: Node) -> None:
        change = nodes.condemn(
            node,
            now=self._ports.clock.now(),
            reason=Reason.MACHINE_GONE,
            detail=f"{node.provider} no longer lists machine {node.machine_id}",
        )
        try:
            await self._store.apply(change)
        except Conflict:
            return
