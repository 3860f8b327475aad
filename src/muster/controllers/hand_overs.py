"""Hand over apps that provably serve, whether they report it or not.

Owns the hand-over by evidence: a fresh heartbeat after the start, a passed probe, the app's own status. An
app that reports is handed over by `enrolment`; the guarded write decides which of the two is first.
"""

from muster.domain import app as apps
from muster.domain.errors import Conflict
from muster.domain.health import Vitals
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.settings import Settings
from muster.domain.template import Template
from muster.ports.bundle import Ports
from muster.ports.paging import node_pages


class HandOvers:
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
        try:
            await self._store.apply(change)
        except Conflict:
            return  # it reported, or left: the next look decides
