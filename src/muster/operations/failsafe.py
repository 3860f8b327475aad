"""End an operation that unforeseen errors keep from advancing, and give back what it holds.

Uses no code of advancing: no view, no decision, no rollback. Reads the operation, its nodes and its
launches by point reads, and writes each by itself. A step that fails is logged and skipped, so the end is
always written: `launch_closer` closes open launches, `deadlines` condemns the nodes.

Condemns every node, also warm ones: whether an agent has started with an assignment is unknown here.
"""

import logging
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

from muster.domain import launch as launches
from muster.domain import node as nodes
from muster.domain import operation as operations
from muster.domain.cluster import ClusterState, changed
from muster.domain.errors import Conflict, LeaseLost, NotCancellable, NotFound, StoreUnavailable
from muster.domain.ids import OperationId
from muster.domain.launch import LaunchState
from muster.domain.lifecycle import HOLDING, NodeState
from muster.domain.node import Node
from muster.domain.operation import CLUSTERS, TO_THE_END, Kind, Operation, Status, Verdict
from muster.domain.reasons import Reason
from muster.domain.redaction import told
from muster.domain.requests import ReleaseRequest
from muster.domain.run_decisions import provision_key, release_key
from muster.domain.settings import Settings
from muster.operations.driven_lease import DrivenLease, still_driven
from muster.operations.submission import request_cancel
from muster.ports.bundle import Ports

logger = logging.getLogger(__name__)

ERRORS_OVERDUE = 2
"""In a row, past the deadline: then there is no time left for more tries."""
TRIES = 10
"""Looks at what it holds. Each lost race means that something moved on by itself."""


class Failsafe:
    def __init__(self, ports: Ports, settings: Settings) -> None:
        self._ports = ports
        self._store = ports.store
        self._errors_most = settings.errors_most

    async def erred(self, driven: DrivenLease, error: Exception, error_id: str) -> bool:
        """Count an unforeseen error, and end the operation if there were too many in a row. Returns whether
        it has ended. Raises LeaseLost if another replica leads it now."""
        driven.errors += 1
        operation = await self._store.operation(driven.operation_id)
        if not still_driven(operation, driven):
            return True
        driven.errors = max(driven.errors, operation.errors + 1)
        now = self._ports.clock.now()
        overdue = now >= operation.deadline_at and operation.kind not in CLUSTERS
        if driven.errors >= (min(ERRORS_OVERDUE, self._errors_most) if overdue else self._errors_most):
            await self.end(operation, told(error), error_id)
            return True
        with suppress(Conflict):  # it moved: the count is in our memory, and is written with the next error
            change = operations.erred(operation, driven.errors, now=now)
            await self._store.write_operation(change, fence=driven.fence)
        return False

    async def advanced(self, driven: DrivenLease) -> None:
        """Forget the errors of an operation that advances again."""
        operation = await self._store.operation(driven.operation_id)
        if still_driven(operation, driven) and operation.errors:
            change = operations.recovered(operation, now=self._ports.clock.now())
            await self._store.write_operation(change, fence=driven.fence)
        driven.errors = 0

    async def end(self, operation: Operation, why: str, error_id: str) -> None:
        """Give back what it holds and end it. `operation` is led by the caller: its fence holds."""
        if operation.ended:
            return
        await self._give_back(operation, error_id)
        for _ in range(TRIES):
            present = await self._store.operation(operation.id)
            if present.epoch != operation.epoch:
                raise LeaseLost(f"operation {operation.id} was taken over")
            if present.ended:
                return
            try:
                await self._write_end(present, why, error_id)
            except LeaseLost:
                raise
            except Conflict:
                continue
            words = "operation ended by an internal error"
            logger.error(words, extra={"operation_id": operation.id, "error_id": error_id, "error": why})
            return
        raise Conflict(f"cannot end operation {operation.id}: it keeps changing; Muster tries again")

    async def _write_end(self, operation: Operation, why: str, error_id: str) -> None:
        status, verdict = _verdict(operation, why, error_id)
        now = self._ports.clock.now()
        change = operations.ended(operation, status, now=now, progress=None, verdict=verdict)
        if operation.kind in CLUSTERS:
            try:
                cluster = await self._ports.clusters.of_operation(operation.id)
                left = f"{verdict.message}; its resources are still there: delete the cluster again"
                failed = changed(
                    cluster, now=now, state=ClusterState.FAILED, reason=Reason.INTERNAL, detail=left
                )
                await self._ports.clusters.write(failed, fence=operation.fence, operation=change)
            except (Conflict, StoreUnavailable):
                raise
            except Exception as error:
                self._log("cannot write the cluster", error, operation, error_id)
            else:
                return
        await self._store.write_operation(change, fence=operation.fence)

    # --- giving back ------------------------------------------------------------------------------

    async def _give_back(self, operation: Operation, error_id: str) -> None:
        try:
            match operation.kind:
                case Kind.PROVISION | Kind.REFILL:
                    await self._let_go(operation, operation, HOLDING, error_id)
                case Kind.RELEASE:
                    await self._released(operation, error_id)
                case Kind.RUN:
                    await self._run(operation, error_id)
                case Kind.CLUSTER_CREATE | Kind.CLUSTER_DELETE:
                    pass  # its record says what is left, and who ends it writes that
        except (LeaseLost, StoreUnavailable):
            raise
        except Exception as error:
            self._log("cannot give back what the operation holds", error, operation, error_id)

    async def _let_go(
        self,
        operation: Operation,
        holder: Operation,
        states: Sequence[NodeState],
        error_id: str,
        meant: Sequence[str] | None = None,
    ) -> None:
        """Condemn the holder's nodes in the states, and abandon what it never asked the provider for."""
        for _ in range(TRIES):
            held = await self._store.holdings(holder.id)
            conflicts = 0
            for launch in held.launches if holder.id == operation.id else ():
                if launch.state is LaunchState.PLANNED:
                    gone = launches.abandoned(launch, now=self._ports.clock.now(), reason=Reason.INTERNAL)
                    write = self._store.write_launch(launch, gone, fence=operation.fence)
                    conflicts += not await self._done(write, operation, error_id)
            for node in held.nodes:
                if node.state in states and (meant is None or node.assignment_id in meant):
                    work = self._condemn(node, holder, operation)
                    conflicts += not await self._done(work, operation, error_id)
            if not conflicts:
                return

    async def _condemn(self, node: Node, holder: Operation, operation: Operation) -> None:
        change = nodes.condemn(
            node,
            now=self._ports.clock.now(),
            reason=Reason.INTERNAL,
            detail=f"operation {operation.id} ended by an internal error",
            rolled_back=True,
            after_commit=holder.committed,
        )
        await self._store.apply(change, fence=operation.fence)

    async def _released(self, operation: Operation, error_id: str) -> None:
        """Condemn the nodes that should have been cleaned."""
        request = operation.request
        if isinstance(request, ReleaseRequest):
            await self._take_back(operation, request.operation_id, error_id, meant=request.assignment_ids)

    async def _run(self, operation: Operation, error_id: str) -> None:
        """Cancel the run's provision, or condemn its nodes, unless a release of its own is under way."""
        provision = await self._store.operation_by_key(provision_key(operation.id))
        release = await self._store.operation_by_key(release_key(operation.id))
        if provision is not None and (release is None or release.ended):
            await self._take_back(operation, provision.id, error_id)

    async def _take_back(
        self,
        operation: Operation,
        provision_id: OperationId,
        error_id: str,
        meant: Sequence[str] | None = None,
    ) -> None:
        with suppress(NotCancellable, NotFound):
            now = self._ports.clock.now()
            provision = await request_cancel(self._store, provision_id, now=now)
            if not provision.ended:
                return  # it rolls back by itself
        provision = await self._store.operation(provision_id)
        await self._let_go(operation, provision, HOLDING, error_id, meant)

    async def _done(self, work: Coroutine[Any, Any, object], operation: Operation, error_id: str) -> bool:
        """Do one thing. False: it moved meanwhile, so look again. What fails otherwise is logged and left."""
        try:
            await work
        except (LeaseLost, StoreUnavailable):
            raise
        except Conflict:
            return False
        except Exception as error:
            self._log("cannot give back what the operation holds", error, operation, error_id)
        return True

    def _log(self, words: str, error: Exception, operation: Operation, error_id: str) -> None:
        logger.error(words, exc_info=error, extra={"operation_id": operation.id, "error_id": error_id})


def _verdict(operation: Operation, why: str, error_id: str) -> tuple[Status, Verdict]:
    message = f"an internal error ended it: {why} (error id {error_id}; the server's log has more)"
    first = operation.verdict
    if first is not None:
        message = f"{message}; before that: {first.message}"
    cancelled = operation.cancel_requested_at is not None and operation.kind not in TO_THE_END
    if cancelled and first is None and not operation.committed:
        return Status.CANCELLED, Verdict(reason=Reason.CANCELLED, message=f"it was cancelled; {message}")
    return Status.FAILED, Verdict(reason=Reason.INTERNAL, message=message)
