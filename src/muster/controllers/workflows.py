"""Workflows: what they no longer need is given back, and what a re-run needs again is provisioned.

Both by looking, because nobody calls: a cancelled workflow runs no job that releases, and "re-run failed
jobs" skips the job that provisions.
"""

import hashlib
import logging
from collections.abc import AsyncIterator
from dataclasses import replace

from muster.domain.errors import MusterError, ProviderError
from muster.domain.ids import OperationId
from muster.domain.lifecycle import NodeState
from muster.domain.operation import Kind, Operation, Status
from muster.domain.requests import ProvisionRequest, ReleaseRequest
from muster.domain.running import RESERVED
from muster.domain.template import Runtime
from muster.domain.workflow import Workflow, WorkflowRun, run_name
from muster.operations.desk import FrontDesk
from muster.operations.issued import Issued
from muster.ports.bundle import Ports
from muster.ports.runners import Workflows

logger = logging.getLogger(__name__)

BATCH = 500
LOOKS_MOST = 200
"""Runs looked up in one round; the others have their turn in the next."""
ATTEMPTS_BACK = 10
PROVISIONS_OF_RUN = 20
_HOLDING = (NodeState.CREATED, NodeState.CLAIMED, NodeState.RUNNING)


class WorkflowKeeper:
    def __init__(self, ports: Ports, workflows: Workflows, issued: Issued, desk: FrontDesk) -> None:
        self._store = ports.store
        self._workflows = workflows
        self._issued = issued
        self._desk = desk
        self._looked: dict[OperationId, int] = {}
        """In which round a provision's run was last looked up."""
        self._round = 0
        self._served: dict[tuple[str, int, int, str], bool] = {}
        """Re-runs that were seen to: their provision is there, or can't be."""

    async def reconcile(self) -> None:
        self._round += 1
        await self._release_the_finished()
        await self._serve_reruns()

    # --- what is over -----------------------------------------------------------------------------

    async def _release_the_finished(self) -> None:
        holders = {operation.id: operation async for operation in self._holders()}
        self._looked = {each: self._looked.get(each, 0) for each in holders}
        for operation_id in sorted(holders, key=lambda each: (self._looked[each], each))[:LOOKS_MOST]:
            self._looked[operation_id] = self._round
            try:
                await self._release_if_over(holders[operation_id])
            except ProviderError as error:
                logger.info(
                    "cannot look up a workflow run", extra={"operation_id": operation_id, "error": str(error)}
                )

    async def _holders(self) -> AsyncIterator[Operation]:
        """Provisions for workflows that hold nodes."""
        met: dict[OperationId, bool] = {}
        for template in await self._store.templates():
            if template.spec.runtime is not Runtime.GITHUB:
                continue
            cursor = None
            while True:
                page = await self._store.nodes(
                    states=_HOLDING, template=template.name, after=cursor, limit=BATCH
                )
                for node in page.items:
                    if node.operation_id is not None and node.operation_id not in met:
                        met[node.operation_id] = True
                        operation = await self._store.operation(node.operation_id)
                        if workflow_of(operation) is not None:
                            yield operation
                cursor = page.next
                if cursor is None:
                    break

    async def _release_if_over(self, operation: Operation) -> None:
        workflow = workflow_of(operation)
        if workflow is None:
            return
        run = await self._workflows.run(workflow.repository, workflow.run_id)
        if run is None or not run.is_over(workflow.attempt):
            return
        key = f"{RESERVED}{operation.id}/workflow-over"
        await self._desk.release(ReleaseRequest(operation_id=operation.id), key=key, ours=True)

    # --- what is needed again ---------------------------------------------------------------------

    async def _serve_reruns(self) -> None:
        met: dict[tuple[str, int, int, str], bool] = {}
        for repository in await self._issued.repositories():
            try:
                for run in await self._workflows.active(repository):
                    if run.attempt > 1:
                        await self._serve(run, met)
            except ProviderError as error:
                logger.info("cannot look for re-runs", extra={"repository": repository, "error": str(error)})
        self._served = met

    async def _serve(self, run: WorkflowRun, met: dict[tuple[str, int, int, str], bool]) -> None:
        earlier = await self._given_out(run, range(max(1, run.attempt - ATTEMPTS_BACK), run.attempt))
        present = await self._given_out(run, range(run.attempt, run.attempt + 1))
        missing = {label: request for label, request in earlier.items() if label not in present}
        for label in list(missing):
            name = (run.repository, run.run_id, run.attempt, label)
            if name in self._served:
                met[name] = True
                del missing[label]
        if not missing:
            return
        waiting = {
            label
            for job in await self._workflows.jobs(run.repository, run.run_id)
            for label in (job.labels if job.queued else ())
        }
        for label, request in missing.items():
            if label in waiting:
                await self._provision_again(run, label, request)
                met[run.repository, run.run_id, run.attempt, label] = True

    async def _given_out(self, run: WorkflowRun, attempts: range) -> dict[str, ProvisionRequest]:
        """Labels, and what was provisioned for each, the latest last."""
        found: dict[str, ProvisionRequest] = {}
        for attempt in attempts:
            page = await self._store.operations(
                kind=Kind.PROVISION,
                statuses=tuple(Status),
                run=run_name(run.repository, run.run_id, attempt),
                after=None,
                limit=PROVISIONS_OF_RUN,
            )
            for operation in page.items:
                if isinstance(operation.request, ProvisionRequest) and operation.request.workflow is not None:
                    found.setdefault(operation.request.workflow.label, operation.request)
        return found

    async def _provision_again(self, run: WorkflowRun, label: str, request: ProvisionRequest) -> None:
        workflow = Workflow(repository=run.repository, run_id=run.run_id, attempt=run.attempt, label=label)
        again = replace(request, run=workflow.run, workflow=workflow)
        named = hashlib.sha256(f"{workflow.run}/{label}".encode()).hexdigest()[:32]
        try:
            await self._desk.provision(again, key=f"{RESERVED}rerun/{named}", ours=True)
        except ProviderError:
            raise
        except MusterError as error:
            words = "cannot provision again for a re-run"
            logger.warning(words, extra={"run": workflow.run, "label": label, "error": str(error)})
            return
        logger.info("provisioned again for a re-run", extra={"run": workflow.run, "label": label})


def workflow_of(operation: Operation) -> Workflow | None:
    request = operation.request
    return request.workflow if isinstance(request, ProvisionRequest) else None
