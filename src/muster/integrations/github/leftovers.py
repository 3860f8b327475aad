"""Remove runners of this installation that have no node from their registry.

A runner belongs to this installation by its name, which holds the installation's id and one assignment. No
other runner is touched. Runners are listed first and nodes are read after, so every live assignment has its
record by then. Busy runners are left alone until their job ends or they go offline.
"""

import logging

from muster.domain.errors import ProviderError
from muster.domain.ids import AssignmentId
from muster.domain.lifecycle import NodeState
from muster.domain.reasons import Reason
from muster.integrations.github.provisioned_scopes import ProvisionedScopes
from muster.integrations.github.registry import GitHubRegistry
from muster.integrations.github.runners import Runner, Scope, assignment_of
from muster.ports.duties import DutyContext
from muster.ports.paging import every_node

logger = logging.getLogger(__name__)

_SERVING = (NodeState.CREATED, NodeState.CLAIMED, NodeState.RUNNING, NodeState.RELEASING)


class Leftovers:
    def __init__(self, given: DutyContext, registry: GitHubRegistry, issued: ProvisionedScopes) -> None:
        self._store = given.store
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
        async for node in every_node(self._store, states=_SERVING):
            if node.assignment_id is not None and node.reason is not Reason.INTERRUPTED:
                found[node.assignment_id] = True
        return found
