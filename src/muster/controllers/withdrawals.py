"""Remove the runner registration of a node that is being terminated.

The termination does not wait for it: an unreachable registry must not keep machines alive. A registration
that stays would still be given jobs. A removal without an answer is repeated until the machine is gone.
`leftovers` removes what stays after that, because the runner is busy or the registry is away.
"""

import logging

from muster.domain.errors import NotFound, ProviderError, Uncertain
from muster.domain.ids import NodeId
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.reasons import Reason
from muster.domain.requests import ProvisionRequest
from muster.operations.concurrency import concurrently
from muster.ports.bundle import Ports
from muster.ports.paging import node_pages

logger = logging.getLogger(__name__)


class Withdrawals:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._store = ports.store
        self._seen_off: dict[NodeId, bool] = {}
        """Only a shortcut: after a restart they are seen off again."""

    async def reconcile(self) -> None:
        met: dict[NodeId, bool] = {}
        async for page in node_pages(self._store, states=(NodeState.TERMINATING,)):
            await concurrently(self._see_off(node) for node in page.items if node.id not in self._seen_off)
            met.update((node.id, True) for node in page.items)
        self._seen_off = {node_id: True for node_id in self._seen_off if node_id in met}

    async def _see_off(self, node: Node) -> None:
        self._seen_off[node.id] = True
        try:
            await self._withdraw(node)
        except NotFound:
            return
        except ProviderError as error:
            if isinstance(error, Uncertain):
                del self._seen_off[node.id]  # no answer: try again while the machine is on its way out
            logger.info(
                "cannot remove the runner of a terminated node",
                extra={"node_id": node.id, "error": str(error)},
            )

    async def _withdraw(self, node: Node) -> None:
        if node.operation_id is None or node.assignment_id is None or node.reason is Reason.REUSE:
            return  # it has no assignment, or proved that its runner is removed
        template = await self._store.template(node.template, node.revision)
        runtime = self._ports.runtimes.get(template.spec.runtime)
        if runtime is None:
            return
        request = (await self._store.operation(node.operation_id)).request
        if isinstance(request, ProvisionRequest):
            await runtime.withdraw(node, request, template.spec)
