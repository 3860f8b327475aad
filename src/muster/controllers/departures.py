"""Departures: the registration of a node that is on its way out goes too, at once and beside its machine.

No termination waits for it: a registry that is away must not keep machines alive.
A runner that nobody removed would be listed, and given jobs, for as long as its registry doesn't miss it.
What can't be removed now, because it works or the registry is away, is left to the sweep of leftovers.
"""

import logging

from muster.domain.errors import NotFound, ProviderError
from muster.domain.ids import NodeId
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.reasons import Reason
from muster.domain.requests import ProvisionRequest
from muster.operations.together import together
from muster.ports.bundle import Ports

logger = logging.getLogger(__name__)

BATCH = 100


class Departures:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._store = ports.store
        self._seen_off: dict[NodeId, bool] = {}
        """Only a shortcut: after a restart they are seen off again."""

    async def reconcile(self) -> None:
        cursor = None
        met: dict[NodeId, bool] = {}
        while True:
            page = await self._store.nodes(
                states=(NodeState.TERMINATING,), template=None, after=cursor, limit=BATCH
            )
            await together(self._see_off(node) for node in page.items if node.id not in self._seen_off)
            met.update((node.id, True) for node in page.items)
            cursor = page.next
            if cursor is None:
                break
        self._seen_off = {node_id: True for node_id in self._seen_off if node_id in met}

    async def _see_off(self, node: Node) -> None:
        self._seen_off[node.id] = True
        try:
            await self._withdraw(node)
        except NotFound:
            return
        except ProviderError as error:
            logger.info(
                "cannot remove the runner of a node that is ended",
                extra={"node_id": node.id, "error": str(error)},
            )

    async def _withdraw(self, node: Node) -> None:
        if node.operation_id is None or node.assignment_id is None or node.reason is Reason.REUSE:
            return  # it serves nobody, or proved that nobody finds it any more
        template = await self._store.template(node.template, node.revision)
        runtime = self._ports.runtimes.get(template.spec.runtime)
        if runtime is None:
            return
        request = (await self._store.operation(node.operation_id)).request
        if isinstance(request, ProvisionRequest):
            await runtime.withdraw(node, request, template.spec)
