"""The reaper: the only caller of `provider.terminate`, and only for nodes stored as terminating.

A node is terminated when the provider says gone. "Not found" says so only if the machine was seen before,
or if it is older than the provider's visibility window: clouds are eventually consistent.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import groupby

from muster.domain import node as nodes
from muster.domain.errors import Conflict, ProviderError
from muster.domain.ids import NodeId
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.settings import Settings
from muster.ports.bundle import Ports
from muster.ports.provider import Machine, MachineState, NodeProvider

logger = logging.getLogger(__name__)

BATCH = 100
RETRY_FIRST = 5.0
RETRY_MOST = 60.0


class Reaper:
    def __init__(self, ports: Ports, settings: Settings) -> None:
        self._ports = ports
        self._store = ports.store
        self._attention = settings.limits.attention
        self._seen: dict[NodeId, bool] = {}
        """Terminating nodes whose machine was described at least once. Only a shortcut: after a restart the
        window decides."""
        self._asked: dict[NodeId, tuple[int, float]] = {}
        """How often we asked for an end, and when to ask again."""
        self._noted: dict[NodeId, bool] = {}

    async def reconcile(self) -> None:
        cursor = None
        met: dict[NodeId, bool] = {}
        while True:
            page = await self._store.nodes(
                states=(NodeState.TERMINATING,), template=None, after=cursor, limit=BATCH
            )
            met.update((node.id, True) for node in page.items)
            ordered = sorted(page.items, key=lambda node: node.provider)
            for name, group in groupby(ordered, key=lambda node: node.provider):
                await self._reap(self._ports.providers.get(name), list(group))
            cursor = page.next
            if cursor is None:
                break
        self._forget_all_but(met)

    async def _reap(self, provider: NodeProvider | None, doomed: Sequence[Node]) -> None:
        if provider is None:
            logger.warning("no such provider any more", extra={"provider": doomed[0].provider})
            return
        try:
            async with asyncio.timeout(provider.call_timeout):
                known = await provider.describe([node.machine_id for node in doomed])
            left = [node for node in doomed if not await self._confirmed(provider, node, known)]
            due = [node for node in left if self._due(node)]
            if due:
                async with asyncio.timeout(provider.call_timeout):
                    await provider.terminate([node.machine_id for node in due])
        except (ProviderError, TimeoutError) as error:
            logger.info("cannot reap now", extra={"provider": provider.name, "error": repr(error)})

    async def _confirmed(self, provider: NodeProvider, node: Node, known: Mapping[str, Machine]) -> bool:
        machine = known.get(node.machine_id)
        now = self._ports.clock.now()
        if machine is None:
            settled = node.id in self._seen or now >= node.created_at + provider.visibility_window
            gone = settled
        else:
            self._seen[node.id] = True
            gone = machine.state is MachineState.GONE
        if not gone:
            await self._note_resistance(node, now)
            return False
        with suppress(Conflict):  # somebody else confirmed it
            await self._store.apply(nodes.confirm_gone(node, now=now))
        return True

    def _due(self, node: Node) -> bool:
        now = self._ports.clock.now()
        times, again_at = self._asked.get(node.id, (0, 0.0))
        if now < again_at:
            return False
        pause = min(RETRY_FIRST * 2 ** min(times, 10), RETRY_MOST)
        self._asked[node.id] = (times + 1, now + pause)
        return True

    async def _note_resistance(self, node: Node, now: float) -> None:
        if now < node.entered_at + self._attention or node.id in self._noted:
            return
        self._noted[node.id] = True
        detail = f"machine {node.machine_id} has resisted its termination for {now - node.entered_at:.0f} s"
        await self._store.note(node.id, "needs_attention", reason=node.reason, detail=detail, now=now)

    def _forget_all_but(self, met: Mapping[NodeId, bool]) -> None:
        self._seen = {node_id: True for node_id in self._seen if node_id in met}
        self._asked = {node_id: state for node_id, state in self._asked.items() if node_id in met}
        self._noted = {node_id: True for node_id in self._noted if node_id in met}
