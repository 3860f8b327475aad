"""Keep the warm minimum of each template, and condemn idle nodes of old revisions.

Launches nothing itself: missing nodes are requested as refill operations, one at a time per template,
guarded by the pool row's version. Also offers idle nodes to claims again where a store lost the offer.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from muster.domain import node as nodes
from muster.domain import pool_plan
from muster.domain.errors import Conflict
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node, NodeChange
from muster.domain.operation import Operation, Status
from muster.domain.pool_plan import Warm
from muster.domain.reasons import Reason
from muster.domain.requests import RefillRequest
from muster.domain.settings import Settings
from muster.domain.template import Template
from muster.operations.capacity import Capacity
from muster.operations.desk import OperationDesk
from muster.ports.bundle import Ports
from muster.ports.paging import node_pages
from muster.ports.store import Pool, if_found

RENEWED_AT_ONCE = 100
"""Nodes per commit: one commit each would keep the disk busy with a large pool."""
AFTER_FAILURE = 60.0
"""Seconds to wait after a refill that failed: a provider without capacity isn't asked every tick."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settled:
    """A pool as it was at a look, and the time before which the same pool needs nothing."""

    template: Template
    idle: Sequence[Node]
    warm: Warm
    until: float


class PoolKeeper:
    def __init__(self, ports: Ports, settings: Settings, desk: OperationDesk) -> None:
        self._ports = ports
        self._store = ports.store
        self._desk = desk
        self._capacity = Capacity(ports)
        self._settled: dict[str, _Settled] = {}
        """By template: pools that the last look found full."""

    async def reconcile(self) -> None:
        offered: list[Node] = []
        for template in await self._store.templates():
            if template.spec.provider in self._ports.providers:
                offered += await self._keep(template)
        await self._store.offer(offered)

    async def _keep(self, template: Template) -> Sequence[Node]:
        """Keep one template's pool, and return its idle nodes as they were."""
        now = self._ports.clock.now()
        idle = await self._idle(template, now)
        settled = self._settle(template, idle)
        if now < settled.until:
            return idle
        pool: Pool | None = None
        # Mostly the pool is full. What only a refill depends on isn't asked for then.
        plan = pool_plan.plan_full(template, settled.warm, now=now)
        if plan is None:
            pool = await self._store.pool(template.name)
            refill = None if pool.refill is None else await if_found(self._store.operation(pool.refill))
            plan = pool_plan.plan(
                template,
                settled.warm,
                room=await self._capacity.left(template),
                leaving=await self._store.count_nodes(state=NodeState.TERMINATING, template=template.name),
                refilling=refill is not None and not refill.ended,
                now=now,
            )
            if self._resting(refill, now) or await self._ports.access.paused(template.name):
                pool = None
        kept_until = now + template.spec.idle_timeout
        for start in range(0, len(plan.renew), RENEWED_AT_ONCE):
            await self._try_together(
                [
                    nodes.renew(node, now=now, deadline_at=kept_until)
                    for node in plan.renew[start : start + RENEWED_AT_ONCE]
                ]
            )
        for node in plan.retire:
            await self._try(nodes.condemn(node, now=now, reason=Reason.RETIRED))
        if plan.refill and pool is not None:
            await self._refill(template, pool, plan.refill)
        return idle

    async def _idle(self, template: Template, now: float) -> Sequence[Node]:
        """Return the template's idle nodes that count. Condemn draining ones on the way."""
        counted: tuple[Node, ...] = ()
        async for page in node_pages(self._store, states=(NodeState.IDLE,), template=template.name):
            draining = [node for node in page.items if node.drain]
            for node in draining:
                reason = node.reason or Reason.OPERATOR
                await self._try(nodes.condemn(node, now=now, reason=reason, detail="draining"))
            staying = tuple(node for node in page.items if not node.drain) if draining else page.items
            counted = counted + staying if counted else staying
        return counted

    def _settle(self, template: Template, idle: Sequence[Node]) -> _Settled:
        settled = self._settled.get(template.name)
        if settled is None or settled.template != template or settled.idle != idle:
            warm = Warm.of(template, idle)
            until = pool_plan.settled_until(template, warm)
            settled = _Settled(template=template, idle=idle, warm=warm, until=until)
            self._settled[template.name] = settled
        return settled

    def _resting(self, refill: Operation | None, now: float) -> bool:
        if refill is None or refill.status is not Status.FAILED:
            return False
        return now < (refill.ended_at or now) + AFTER_FAILURE

    async def _refill(self, template: Template, pool: Pool, count: int) -> None:
        request = RefillRequest(template=template.name, revision=template.revision, count=count)
        with suppress(Conflict):  # another replica was first
            await self._desk.refill(request, pool)

    async def _try_together(self, changes: Sequence[NodeChange]) -> None:
        try:
            await self._store.apply_all(changes)
        except Conflict:  # one of them moved; some of the others may be written
            for change in changes:
                await self._try(change)

    async def _try(self, change: NodeChange) -> None:
        with suppress(Conflict):  # another writer claimed or condemned the node
            await self._store.apply(change)
