"""Release the nodes of ended workflow runs, and provision again for re-runs.

Both by polling GitHub: a cancelled workflow runs no job that releases, and "re-run failed jobs" skips the
job that provisions.
"""

import hashlib
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from muster.domain.backoff import backoff
from muster.domain.errors import Forbidden, InvalidRequest, NotFound, ProviderError
from muster.domain.ids import OperationId
from muster.domain.lifecycle import HOLDING
from muster.domain.operation import Operation, Status
from muster.domain.requests import ProvisionRequest, ReleaseRequest
from muster.domain.run_decisions import RERUN, RESERVED
from muster.integrations.github.provisioned_scopes import ProvisionedScopes
from muster.integrations.github.registry import GitHubRegistry
from muster.integrations.github.requests import WORKFLOW, Workflow, run_name
from muster.integrations.github.runners import WorkflowRun
from muster.ports.duties import DutyContext
from muster.ports.paging import every_node, provisions

logger = logging.getLogger(__name__)

LOOKS_MOST = 200
"""Runs looked up in one round; the others have their turn in the next."""
REPOSITORIES_MOST = 20
"""Repositories asked for re-runs in one round, those first that waited longest."""
ATTEMPTS_BACK = 50
"""GitHub begins a run anew at most so often."""
TRIES = 8
"""Provisions for one label of a re-run, if they fail one after the other."""
PAUSE = 60.0
"""Seconds after the first that failed; twice as long after each further one."""
PAUSE_MOST = 900.0
DELETED_AFTER = 120.0
"""Seconds for which a run must be missing while its repository answers, before it counts as deleted."""
_UNDER_WAY = (Status.QUEUED, Status.RUNNING)


class WorkflowKeeper:
    def __init__(self, given: DutyContext, workflows: GitHubRegistry, issued: ProvisionedScopes) -> None:
        self._store = given.store
        self._clock = given.clock
        self._workflows = workflows
        self._issued = issued
        self._desk = given.desk
        self._looked: dict[OperationId, int] = {}
        """In which round a provision's run was last looked up."""
        self._asked: dict[str, int] = {}
        """In which round a repository was last asked for re-runs."""
        self._missing: dict[OperationId, float] = {}
        """Since when a provision's run is missing."""
        self._round = 0
        self._refused: dict[tuple[str, int, int, str], bool] = {}
        """Re-runs that can't be provisioned for."""

    async def reconcile(self) -> None:
        self._round += 1
        await self._release_the_finished()
        await self._serve_reruns()

    # --- what is over -----------------------------------------------------------------------------

    async def _release_the_finished(self) -> None:
        holders = {operation.id: operation async for operation in self._holders()}
        self._looked = {each: self._looked.get(each, 0) for each in holders}
        self._missing = {each: at for each, at in self._missing.items() if each in holders}
        for operation_id in sorted(holders, key=lambda each: (self._looked[each], each))[:LOOKS_MOST]:
            self._looked[operation_id] = self._round
            try:
                await self._release_if_over(holders[operation_id])
            except ProviderError as error:
                logger.info(
                    "cannot look up a workflow run", extra={"operation_id": operation_id, "error": str(error)}
                )

    async def _holders(self) -> AsyncIterator[Operation]:
        """Return provisions for workflows that hold nodes, or will; a queued one holds none yet."""
        met: dict[OperationId, bool] = {}
        async for operation in provisions(self._store, run=None, statuses=_UNDER_WAY):
            met[operation.id] = True
            if workflow_of(operation) is not None:
                yield operation
        for template in await self._store.templates():
            if template.spec.runtime != "github":
                continue
            async for node in every_node(self._store, states=HOLDING, template=template.name):
                if node.operation_id is not None and node.operation_id not in met:
                    met[node.operation_id] = True
                    operation = await self._store.operation(node.operation_id)
                    if workflow_of(operation) is not None:
                        yield operation

    async def _release_if_over(self, operation: Operation) -> None:
        workflow = workflow_of(operation)
        if workflow is None:
            return
        run = await self._workflows.run(workflow.repository, workflow.run_id)
        if run is None:
            over = await self._is_deleted(operation.id, workflow)
        else:
            self._missing.pop(operation.id, None)
            over = run.is_over(workflow.attempt)
        if not over:
            return
        key = f"{RESERVED}{operation.id}/workflow-over"
        await self._desk.release(ReleaseRequest(operation_id=operation.id), key=key, ours=True)

    async def _is_deleted(self, operation_id: OperationId, workflow: Workflow) -> bool:
        """Tell whether a missing run was deleted: GitHub deletes only runs that are over.

        GitHub also answers 404 for what the credentials may not see. So the run must stay missing for a
        while, and its repository must answer."""
        since = self._missing.setdefault(operation_id, self._clock.now())
        if self._clock.now() - since < DELETED_AFTER:
            return False
        return await self._workflows.can_see(workflow.repository)

    # --- what is needed again ---------------------------------------------------------------------

    async def _serve_reruns(self) -> None:
        known = await self._issued.repositories()
        self._asked = {each: self._asked.get(each, 0) for each in known}
        turn = sorted(known, key=lambda each: (self._asked[each], each))[:REPOSITORIES_MOST]
        met = {name: True for name in self._refused if name[0] in self._asked and name[0] not in turn}
        for repository in turn:
            self._asked[repository] = self._round
            try:
                for run in await self._workflows.active(repository):
                    if run.attempt > 1:
                        await self._serve(run, met)
            except ProviderError as error:
                logger.info("cannot look for re-runs", extra={"repository": repository, "error": str(error)})
        self._refused = met

    async def _serve(self, run: WorkflowRun, met: dict[tuple[str, int, int, str], bool]) -> None:
        earlier: dict[str, ProvisionRequest] = {}
        for attempt in range(max(1, run.attempt - ATTEMPTS_BACK), run.attempt):
            for label, operations in (await self._given_out(run, attempt)).items():
                request = operations[0].request
                if isinstance(request, ProvisionRequest):
                    earlier.setdefault(label, request)
        tried = await self._given_out(run, run.attempt)
        now = self._clock.now()
        missing = {each: earlier[each] for each in earlier if is_due(tried.get(each, ()), now=now)}
        for label in list(missing):
            name = (run.repository, run.run_id, run.attempt, label)
            if name in self._refused:
                met[name] = True
                del missing[label]
        if not missing:
            return
        jobs = await self._workflows.workflow_jobs(run.repository, run.run_id)
        waiting = {label.lower() for job in jobs if job.status == "queued" for label in job.labels}
        wanted = {label: request for label, request in missing.items() if label in waiting}
        # Anew, if there is something to do: while GitHub answered, the attempt's own step may have asked.
        tried = await self._given_out(run, run.attempt) if wanted else {}
        for label, request in wanted.items():
            tries = tried.get(label, ())
            if is_due(tries, now=now) and not await self._provision_again(run, request, tries=len(tries)):
                met[run.repository, run.run_id, run.attempt, label] = True

    async def _given_out(self, run: WorkflowRun, attempt: int) -> dict[str, list[Operation]]:
        """Return labels in lower case, with the provisions for each, newest first."""
        found: dict[str, list[Operation]] = {}
        async for operation in provisions(self._store, run=run_name(run.repository, run.run_id, attempt)):
            workflow = workflow_of(operation)
            if workflow is not None:
                found.setdefault(workflow.named.lower(), []).append(operation)
        return found

    async def _provision_again(self, run: WorkflowRun, request: ProvisionRequest, *, tries: int) -> bool:
        """Provision again; return whether there is a provision now. False: it was refused, and would be
        again."""
        before = WORKFLOW.of(request)
        if before is None:
            return False
        workflow = replace(before, attempt=run.attempt)
        label = workflow.named
        again = replace(request, run=workflow.run, tables={**request.tables, WORKFLOW.name: workflow})
        named = hashlib.sha256(f"{workflow.run}/{label}/{tries}".encode()).hexdigest()[:32]
        try:
            await self._desk.provision(again, key=f"{RERUN}{named}", ours=True)
        except (InvalidRequest, NotFound, Forbidden) as error:
            words = "cannot provision again for a re-run"
            logger.warning(words, extra={"run": workflow.run, "label": label, "error": str(error)})
            return False
        logger.info("provisioned again for a re-run", extra={"run": workflow.run, "label": label})
        return True


def is_due(tried: Sequence[Operation], *, now: float) -> bool:
    """Return whether to provision for a label again; while all tries failed, ever more rarely."""
    if not tried:
        return True
    if len(tried) >= TRIES or any(each.status is not Status.FAILED for each in tried):
        return False
    pause = backoff(len(tried) - 1, first=PAUSE, most=PAUSE_MOST)
    return now >= max(each.updated_at for each in tried) + pause


def workflow_of(operation: Operation) -> Workflow | None:
    request = operation.request
    return WORKFLOW.of(request) if isinstance(request, ProvisionRequest) else None
