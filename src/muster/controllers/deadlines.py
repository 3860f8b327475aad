"""The sweep: nodes past their deadline. The only judge of a node's time.

Losing the race for a node means that it moved on: no event, no action.
"""

from muster.domain import deadlines
from muster.domain import node as nodes
from muster.domain.deadlines import Overdue
from muster.domain.errors import Conflict, NotFound
from muster.domain.node import Node, NodeChange
from muster.domain.operation import Operation
from muster.domain.settings import Settings
from muster.ports.bundle import Ports

BATCH = 500


class Sweep:
    def __init__(self, ports: Ports, settings: Settings) -> None:
        self._ports = ports
        self._store = ports.store
        self._limits = settings.limits

    async def reconcile(self) -> None:
        for node in await self._store.nodes_due(now=self._ports.clock.now(), limit=BATCH):
            change = await self._judge(node)
            if change is None:
                continue
            try:
                await self._store.apply(change)
            except Conflict:
                continue

    async def _judge(self, node: Node) -> NodeChange | None:
        operation = await self._operation(node)
        now = self._ports.clock.now()
        match deadlines.judge(node, operation, now=now, limits=self._limits):
            case None:
                return None
            case Overdue(reason=reason, fails=True):
                template = await self._store.template(node.template, node.revision)
                return nodes.fail(
                    node,
                    now=now,
                    reason=reason,
                    deadline_at=now + template.spec.rescue_window,
                    detail=_overrun(node, now),
                )
            case Overdue(reason=reason):
                return nodes.condemn(node, now=now, reason=reason, detail=_overrun(node, now))
            case float() as later:
                return nodes.extend(node, now=now, deadline_at=later, source="operation")

    async def _operation(self, node: Node) -> Operation | None:
        if node.operation_id is None:
            return None
        try:
            return await self._store.operation(node.operation_id)
        except NotFound:
            return None


def _overrun(node: Node, now: float) -> str:
    return f"{now - node.entered_at:.0f} s in {node.state}, deadline from {node.deadline_source}"
