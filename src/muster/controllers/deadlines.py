"""Judge nodes past their deadline and boots that stopped advancing. The only judge of a node's time.

A lost race for a node means that the node moved on: no event, no action.
"""

import logging
from contextlib import suppress

from muster.domain import app as apps
from muster.domain import deadlines
from muster.domain import node as nodes
from muster.domain.deadlines import DeadlineContext, Extended, Overdue, overdue_after
from muster.domain.errors import Conflict
from muster.domain.health import Vitals
from muster.domain.node import Node, NodeChange
from muster.domain.observations import aged
from muster.domain.operation import Operation, Status
from muster.domain.settings import Settings
from muster.operations.failsafe import Failsafe
from muster.operations.watch import WatchTracker
from muster.ports.bundle import Ports
from muster.ports.paging import items
from muster.ports.store import operation_of

BATCH = 500
logger = logging.getLogger(__name__)

LEASE = 60.0
OPEN = (Status.QUEUED, Status.RUNNING)


class DeadlineSweep:
    def __init__(self, ports: Ports, settings: Settings, watch_tracker: WatchTracker) -> None:
        self._ports = ports
        self._store = ports.store
        self._limits = settings.limits
        self._watch_tracker = watch_tracker

    async def reconcile(self) -> None:
        now = self._ports.clock.now()
        due = await self._store.nodes_due(now=now, limit=BATCH)
        still = await self._store.stalled(now=now, stall_after=self._limits.stall_after, limit=BATCH)
        suspects = {node.id: node for node in (*due, *still)}
        vitals = await self._store.vitals(list(suspects)) if suspects else {}
        for node in suspects.values():
            known = vitals.get(node.id)
            if known is not None and self._serves(node, known):
                continue  # its start is over: it is about to be handed over
            change = await self._judge(node, known.advanced_at if known else None)
            if change is None:
                continue
            with suppress(Conflict):
                await self._store.apply(change)

    def _serves(self, node: Node, vitals: Vitals) -> bool:
        now = self._ports.clock.now()
        return apps.hand_over(node, vitals, now=now, limits=self._limits) is not None

    async def _judge(self, node: Node, advanced_at: float | None) -> NodeChange | None:
        # The time first: if we stand still before the watch is known, it began anew after that time.
        now = self._ports.clock.now()
        watch = await self._watch_tracker.look()
        template = await self._store.template(node.template, node.revision)
        at = DeadlineContext(
            operation=await operation_of(self._store, node),
            template=template.spec,
            advanced_at=advanced_at,
            watch=watch,
            now=now,
            limits=self._limits,
        )
        match deadlines.judge(node, at):
            case None:
                return None
            case Overdue(fails=True) as late:
                return deadlines.failed(
                    node,
                    reason=late.reason,
                    template=at.template,
                    operation=at.operation,
                    now=at.now,
                    detail=late.detail,
                    still_since=late.still_since,
                )
            case Overdue() as late:
                committed = at.operation is not None and at.operation.committed
                return nodes.condemn(
                    node, now=at.now, reason=late.reason, detail=late.detail, after_commit=committed
                )
            case Extended() as later:
                return nodes.extend(
                    node,
                    now=at.now,
                    deadline_at=later.deadline_at,
                    source=later.source,
                    detail=later.detail,
                )


class OverdueOperations:
    """End operations that are still open long after their deadline.

    The last resort for a driver that hangs or can't write the end of its operation. Takes the operation from
    its driver and ends it by the failsafe.
    """

    def __init__(self, ports: Ports, watch_tracker: WatchTracker, failsafe: Failsafe, owner: str) -> None:
        self._ports = ports
        self._store = ports.store
        self._watch_tracker = watch_tracker
        self._failsafe = failsafe
        self._owner = owner

    async def reconcile(self) -> None:
        failed: Exception | None = None
        async for operation in items(
            lambda after: self._store.operations(kind=None, statuses=OPEN, run=None, after=after, limit=BATCH)
        ):
            try:
                await self._look_at(operation)
            except Exception as error:
                # One that can't be ended must not keep the others open.
                logger.exception("cannot end operation", extra={"operation_id": operation.id})
                failed = failed or error
        if failed is not None:
            raise failed

    async def _look_at(self, operation: Operation) -> None:
        now = self._ports.clock.now()
        if now < operation.deadline_at + overdue_after(operation.kind):
            return
        due = await self._watch_tracker.due(operation)
        if now < due + overdue_after(operation.kind):
            return
        seized = await self._store.seize(operation.id, self._owner, now=now, until=now + LEASE)
        late = f"it had not ended {aged(now - due)} after its deadline"
        with suppress(Conflict):  # it moves, so a replica works on it; the next look tells
            await self._failsafe.end(seized, late, self._ports.ids.new("err"))
