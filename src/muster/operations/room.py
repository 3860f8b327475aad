"""Room under the caps: how much there is, and how to get more without taking it from anybody who needs it."""

from muster.domain import node as nodes
from muster.domain.errors import CapReached, Conflict
from muster.domain.lifecycle import NodeState
from muster.domain.matching import Demand
from muster.domain.node import Node
from muster.domain.pooling import evictable
from muster.domain.reasons import Reason
from muster.domain.settings import Settings
from muster.domain.template import Template
from muster.operations.together import together
from muster.ports.bundle import Ports
from muster.ports.store import TOTAL

LOOK_AT = 1000
"""Idle nodes that are looked at together, when some have to make way."""


class Room:
    def __init__(self, ports: Ports, settings: Settings) -> None:
        self._store = ports.store
        self._limits = settings.limits

    async def left(self, template: Template) -> int:
        """How many more nodes the caps allow for a template right now."""
        usage = await self._store.usage(template.name)
        installation = await self._store.installation()
        return min(template.spec.max_nodes - usage.template, installation.max_nodes - usage.total)

    async def suffices(self, demand: Demand, template: Template, count: int, *, now: float) -> bool:
        """Whether trying again could work: warm nodes, room, and room that is about to be."""
        seen_since = now - self._limits.stale_after
        warm = await self._store.count_claimable(demand, seen_since=seen_since, now=now)
        missing = count - warm
        if missing <= 0:
            return True
        short = missing - await self.left(template)
        if short <= 0:
            return True
        usage = await self._store.usage(template.name)
        everywhere = usage.template + missing <= template.spec.max_nodes
        leaving, standing = await self._reachable(demand, short, everywhere=everywhere)
        return leaving + len(standing) >= short

    async def make(self, demand: Demand, short: CapReached, *, now: float) -> bool:
        """Evict idle nodes that can't serve the demand, as many as are needed. False: it can't suffice."""
        leaving, standing = await self._reachable(demand, short.short_by, everywhere=short.scope == TOTAL)
        if leaving + len(standing) < short.short_by:
            return False
        needed = max(0, short.short_by - leaving)
        await together(self._evict(node, demand, now=now) for node in standing[:needed])
        return True

    async def _reachable(self, demand: Demand, enough: int, *, everywhere: bool) -> tuple[int, list[Node]]:
        """Nodes on their way out, and idle ones in the way: all of them, or enough together."""
        scope = None if everywhere else demand.template
        leaving = await self._store.count_nodes(state=NodeState.TERMINATING, template=scope)
        templates = {template.name: template for template in await self._store.templates()}
        idle: list[Node] = []
        cursor = None
        while True:
            page = await self._store.nodes(
                states=(NodeState.IDLE,), template=scope, after=cursor, limit=LOOK_AT
            )
            idle += page.items
            standing = evictable(idle, demand, templates, everywhere=everywhere)
            cursor = page.next
            if cursor is None or leaving + len(standing) >= enough:
                return leaving, standing

    async def _evict(self, node: Node, demand: Demand, *, now: float) -> None:
        old = node.template == demand.template and node.revision < demand.revision
        reason = Reason.RETIRED if old else Reason.CAP_REACHED
        try:
            await self._store.apply(
                nodes.condemn(node, now=now, reason=reason, detail="in the way of another request")
            )
        except Conflict:
            return  # somebody took it meanwhile; the next look counts again
