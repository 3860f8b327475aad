"""Ask runtimes that confirm: attach nodes that are ready, withdraw those that are being terminated."""

import logging
from collections.abc import AsyncIterator

from muster.domain import deadlines
from muster.domain import node as nodes
from muster.domain.errors import Conflict, NotFound, ProviderError, Uncertain
from muster.domain.ids import NodeId
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.reasons import Reason
from muster.domain.requests import ProvisionRequest
from muster.domain.settings import Settings
from muster.domain.template import Template
from muster.operations.concurrency import concurrently
from muster.ports.bundle import Ports
from muster.ports.paging import every_node, node_pages
from muster.ports.runtime import NodeRuntime

logger = logging.getLogger(__name__)


class Attachments:
    """Attach nodes whose runtime must confirm that they are ready.

    When a node reports that it is ready, `enrolment` asks its runtime at once. This duty asks again for nodes
    that the runtime did not see then, and for nodes whose report was lost.
    """

    def __init__(self, ports: Ports, settings: Settings) -> None:
        self._ports = ports
        self._store = ports.store
        self._limits = settings.limits

    async def reconcile(self) -> None:
        for template in await self._store.templates():
            runtime = self._ports.runtimes.get(template.spec.runtime)
            if runtime is not None:
                awaited = [node async for node in self._awaited(template)]
                await concurrently(self._look(node, runtime) for node in awaited)

    async def _awaited(self, template: Template) -> AsyncIterator[Node]:
        states = (NodeState.CREATED, NodeState.CLAIMED)
        async for node in every_node(self._store, states=states, template=template.name):
            if node.up and node.assignment_id is not None and not node.attached:
                yield node

    async def _look(self, node: Node, runtime: NodeRuntime) -> None:
        try:
            await self._attach(node, runtime)
        except (Conflict, NotFound):
            return  # it moved on by itself
        except ProviderError as error:
            logger.info(
                "cannot see whether a node has arrived", extra={"node_id": node.id, "error": str(error)}
            )

    async def _attach(self, node: Node, runtime: NodeRuntime) -> None:
        if node.operation_id is None:
            return
        operation = await self._store.operation(node.operation_id)
        template = await self._store.template(node.template, node.revision)
        request = operation.request
        if isinstance(request, ProvisionRequest) and await runtime.attached(node, request, template.spec):
            now = self._ports.clock.now()
            until = deadlines.attached_until(operation, self._limits, now=now)
            await self._store.apply(nodes.attached(node, now=now, deadline_at=until))


class Withdrawals:
    """Remove the runner registration of a node that is being terminated.

    The termination does not wait for it: an unreachable registry must not keep machines alive. A registration
    that stays would still be given jobs. A removal without an answer is repeated until the machine is gone.
    `leftovers` removes what stays after that, because the runner is busy or the registry is away.
    """

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
