"""Terminate machines of nodes stored as terminating. The only caller of `provider.terminate`.

A node is terminated when the provider says gone. "Not found" counts as gone only if the machine was seen
before, or is older than the provider's visibility window. Nodes of a provider that is no longer configured
are given up after a while, with an event. If the provider returns, `orphans` finds what is left there.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress

from muster.domain import node as nodes
from muster.domain.backoff import backoff
from muster.domain.errors import Conflict, ProviderError
from muster.domain.ids import NodeId
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.settings import Settings
from muster.operations.concurrency import UNREACHABLE, each_provider
from muster.ports.bundle import Ports
from muster.ports.paging import every_node
from muster.ports.provider import Machine, MachineState, NodeProvider

logger = logging.getLogger(__name__)

BATCH = 100
WITHIN = 40.0
"""Seconds for all nodes of one provider."""
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
        self._looked: dict[NodeId, float] = {}
        """When each one's machine was last asked about: it decides who comes first."""
        self._missed: dict[str, float] = {}
        """Since when each provider of theirs is not configured, as far as this process knows."""
        self._noted: dict[NodeId, bool] = {}
        self._gone: dict[NodeId, bool] = {}
        """Those that this tick saw gone."""

    async def reconcile(self) -> None:
        terminating = await self._terminating()
        self._forget_all_but(terminating)
        by_provider: dict[str, list[Node]] = {}
        for node in terminating.values():
            by_provider.setdefault(node.provider, []).append(node)

        async def look(provider: NodeProvider) -> None:
            # The longest wait first: some whose look hangs don't delay the others for ever.
            waiting = sorted(by_provider[provider.name], key=lambda node: self._looked.get(node.id, 0.0))
            for start in range(0, len(waiting), BATCH):
                await self._reap(provider, waiting[start : start + BATCH])

        providers = [self._ports.providers[name] for name in by_provider if name in self._ports.providers]
        await self._give_up(
            [node for node in terminating.values() if node.provider not in self._ports.providers]
        )
        await each_provider(providers, look, self._ports.clock, within=WITHIN)
        for node in terminating.values():
            if node.id not in self._gone:
                await self._report_slow_end(node)

    async def _terminating(self) -> dict[NodeId, Node]:
        found = every_node(self._store, states=(NodeState.TERMINATING,))
        return {node.id: node async for node in found}

    async def _reap(self, provider: NodeProvider, terminating: Sequence[Node]) -> None:
        self._looked.update((node.id, self._ports.clock.now()) for node in terminating)
        try:
            async with asyncio.timeout(provider.call_timeout):
                known = await provider.describe([node.machine_id for node in terminating])
            left = [node for node in terminating if not await self._confirmed(provider, node, known)]
            due = [node for node in left if self._due(node)]
            if due:
                async with asyncio.timeout(provider.call_timeout):
                    await provider.terminate([node.machine_id for node in due])
        except (ProviderError, TimeoutError) as error:
            logger.info("cannot reap now", extra={"provider": provider.name, "error": repr(error)})

    async def _give_up(self, unreachable: Sequence[Node]) -> None:
        now = self._ports.clock.now()
        self._missed = {node.provider: self._missed.get(node.provider, now) for node in unreachable}
        for node in unreachable:
            if now < max(node.entered_at, self._missed[node.provider]) + UNREACHABLE:
                continue
            detail = f"provider {node.provider} is not configured: check it for machine {node.machine_id}"
            logger.warning(
                "the provider is no longer configured", extra={"provider": node.provider, "node_id": node.id}
            )
            await self._end(node, detail)

    async def _end(self, node: Node, detail: str = "") -> None:
        with suppress(Conflict):  # another replica confirmed it
            await self._store.apply(nodes.confirm_gone(node, now=self._ports.clock.now(), detail=detail))
        self._gone[node.id] = True

    async def _confirmed(self, provider: NodeProvider, node: Node, known: Mapping[str, Machine]) -> bool:
        machine = known.get(node.machine_id)
        now = self._ports.clock.now()
        if machine is None:
            settled = node.id in self._seen or now >= node.created_at + provider.visibility_window
            gone = settled
        else:
            self._seen[node.id] = True
            gone = machine.state is MachineState.GONE
        if gone:
            await self._end(node)
        return gone

    def _due(self, node: Node) -> bool:
        now = self._ports.clock.now()
        times, again_at = self._asked.get(node.id, (0, 0.0))
        if now < again_at:
            return False
        pause = backoff(times, first=RETRY_FIRST, most=RETRY_MOST)
        self._asked[node.id] = (times + 1, now + pause)
        return True

    async def _report_slow_end(self, node: Node) -> None:
        """Write an event once for a machine whose end is not confirmed in time."""
        now = self._ports.clock.now()
        if now < node.entered_at + self._attention or node.id in self._noted:
            return
        self._noted[node.id] = True
        detail = (
            f"{node.provider} has not confirmed the end of machine {node.machine_id}"
            f" {now - node.entered_at:.0f} s after Muster began to terminate it"
        )
        await self._store.note(node.id, "needs_attention", reason=node.reason, detail=detail, now=now)

    def _forget_all_but(self, met: Mapping[NodeId, Node]) -> None:
        self._gone = {}
        self._seen = {node_id: True for node_id in self._seen if node_id in met}
        self._looked = {node_id: at for node_id, at in self._looked.items() if node_id in met}
        self._asked = {node_id: state for node_id, state in self._asked.items() if node_id in met}
        self._noted = {node_id: True for node_id in self._noted if node_id in met}
