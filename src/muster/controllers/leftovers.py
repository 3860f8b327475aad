"""Leftovers: runners of ours that no node answers for any more. They are taken out of the registry.

A runner is ours by its name alone, which holds this installation's id and one assignment; nobody else's is
ever touched. Runners are listed first and nodes read after: whatever is registered for a live assignment has
had its record before. One that is busy is left in peace; its job ends, or it goes offline. A node
whose machine is about to be taken back doesn't answer for its runner any more: it is given no other job.
"""

import logging

from muster.domain.errors import ProviderError
from muster.domain.ids import AssignmentId
from muster.domain.lifecycle import NodeState
from muster.domain.reasons import Reason
from muster.domain.workflow import Scope, assignment_of
from muster.operations.issued import Issued
from muster.ports.bundle import Ports
from muster.ports.runners import Runner, RunnerRegistry

logger = logging.getLogger(__name__)

BATCH = 500
_SERVING = (NodeState.CREATED, NodeState.CLAIMED, NodeState.RUNNING, NodeState.RELEASING)


class Leftovers:
    def __init__(self, ports: Ports, registry: RunnerRegistry, issued: Issued) -> None:
        self._store = ports.store
        self._registry = registry
        self._issued = issued

    async def reconcile(self) -> None:
        installation = await self._store.installation()
        for scope in await self._issued.scopes():
            try:
                await self._sweep(scope, installation.id)
            except ProviderError as error:
                logger.info(
                    "cannot look for leftover runners", extra={"scope": str(scope), "error": str(error)}
                )

    async def _sweep(self, scope: Scope, installation_id: str) -> None:
        ours: list[tuple[Runner, AssignmentId]] = []
        for runner in await self._registry.runners(scope):
            assignment = assignment_of(installation_id, runner.name)
            if assignment is not None and not (runner.online and runner.busy):
                ours.append((runner, assignment))
        if not ours:
            return
        serving = await self._serving()
        for runner, assignment in ours:
            if assignment not in serving and await self._registry.remove(scope, runner.id):
                logger.info("removed a leftover runner", extra={"runner": runner.name, "scope": str(scope)})

    async def _serving(self) -> dict[AssignmentId, bool]:
        found: dict[AssignmentId, bool] = {}
        cursor = None
        while True:
            page = await self._store.nodes(states=_SERVING, template=None, after=cursor, limit=BATCH)
            found.update(
                (node.assignment_id, True)
                for node in page.items
                if node.assignment_id is not None and node.reason is not Reason.INTERRUPTED
            )
            cursor = page.next
            if cursor is None:
                return found
