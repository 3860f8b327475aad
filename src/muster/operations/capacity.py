"""Compute the room under the caps and at providers, and make more by condemning surplus idle nodes.

Never takes nodes of a template's warm minimum.
"""

from contextlib import suppress

from muster.domain import node as nodes
from muster.domain.errors import CapReached, Conflict
from muster.domain.lifecycle import NodeState
from muster.domain.matching import Demand
from muster.domain.node import Node
from muster.domain.pool_plan import evictable
from muster.domain.reasons import Reason
from muster.domain.template import Template
from muster.operations.concurrency import concurrently
from muster.ports.bundle import Ports
from muster.ports.paging import every_node
from muster.ports.store import TOTAL

LOOK_AT = 1000
"""Idle nodes that are looked at together, when some have to make way."""


class Capacity:
    def __init__(self, ports: Ports) -> None:
        self._store = ports.store

    async def left(self, template: Template) -> int:
        """Return how many more nodes the caps allow for a template right now."""
        usage = await self._store.usage(template.name)
        installation = await self._store.installation()
        return min(template.spec.max_nodes - usage.template, installation.max_nodes - usage.total)

    async def suffices(
        self, demand: Demand, template: Template, count: int, *, seen_since: float, now: float
    ) -> bool:
        """Return whether a new try could succeed: with warm nodes, room, and room that is about
        to be free."""
        warm = await self._store.count_claimable(demand, seen_since=seen_since, now=now)
        missing = count - warm
        if missing <= 0:
            return True
        short = missing - await self.left(template)
        if short <= 0:
            return True
        usage = await self._store.usage(template.name)
        everywhere = usage.template + missing <= template.spec.max_nodes
        leaving, surplus = await self._reachable(demand, short, everywhere=everywhere)
        return leaving + len(surplus) >= short

    async def make(self, demand: Demand, short: CapReached, *, now: float) -> bool:
        """Evict idle nodes that can't serve the demand, as many as are needed. False: it can't suffice."""
        leaving, surplus = await self._reachable(demand, short.short_by, everywhere=short.scope == TOTAL)
        if leaving + len(surplus) < short.short_by:
            return False
        needed = max(0, short.short_by - leaving)
        await concurrently(
            self._evict(node, demand, Reason.CAP_REACHED, now=now) for node in surplus[:needed]
        )
        return True

    async def make_at(self, provider: str, demand: Demand, short: int, *, now: float) -> bool:
        """Evict idle nodes of a provider that has no room for so many more. False: that can't suffice."""
        leaving, templates = await self.leaving(provider), await self._templates()
        idle = [
            node
            for template in templates.values()
            if template.spec.provider == provider
            async for node in every_node(self._store, states=(NodeState.IDLE,), template=template.name)
            if node.provider == provider
        ]
        surplus = evictable(idle, demand, templates, everywhere=True)
        if leaving + len(surplus) < short:
            return False
        needed = max(0, short - leaving)
        await concurrently(self._evict(node, demand, Reason.CAPACITY, now=now) for node in surplus[:needed])
        return True

    async def leaving(self, provider: str) -> int:
        """Return how many nodes of a provider are being terminated."""
        names = [each.name for each in await self._store.templates() if each.spec.provider == provider]
        return sum(
            [await self._store.count_nodes(state=NodeState.TERMINATING, template=name) for name in names]
        )

    async def _reachable(self, demand: Demand, enough: int, *, everywhere: bool) -> tuple[int, list[Node]]:
        """Return the number of terminating nodes, and evictable idle nodes: all, or enough together."""
        scope = None if everywhere else demand.template
        leaving = await self._store.count_nodes(state=NodeState.TERMINATING, template=scope)
        templates = await self._templates()
        idle: list[Node] = []
        surplus: list[Node] = []
        async for node in every_node(self._store, states=(NodeState.IDLE,), template=scope):
            idle.append(node)
            if len(idle) % LOOK_AT == 0:
                surplus = evictable(idle, demand, templates, everywhere=everywhere)
                if leaving + len(surplus) >= enough:
                    return leaving, surplus
        return leaving, evictable(idle, demand, templates, everywhere=everywhere)

    async def _templates(self) -> dict[str, Template]:
        return {template.name: template for template in await self._store.templates()}

    async def _evict(self, node: Node, demand: Demand, why: Reason, *, now: float) -> None:
        old = node.template == demand.template and node.revision < demand.revision
        reason = Reason.RETIRED if old else why
        with suppress(Conflict):  # another write took it meanwhile; the next look counts again
            await self._store.apply(
                nodes.condemn(
                    node, now=now, reason=reason, detail="terminated to make room for another request"
                )
            )
