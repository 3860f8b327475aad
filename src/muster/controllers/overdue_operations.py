"""End operations that are still open long after their deadline.

The last resort for a driver that hangs or can't write the end of its operation. Takes the operation from
its driver and ends it by the failsafe.
"""

import logging

from muster.domain.deadlines import overdue_after
from muster.domain.errors import Conflict
from muster.domain.observations import aged
from muster.domain.operation import Operation, Status
from muster.operations.failsafe import Failsafe
from muster.operations.watch import WatchTracker
from muster.ports.bundle import Ports
from muster.ports.paging import items

logger = logging.getLogger(__name__)

BATCH = 500
LEASE = 60.0
OPEN = (Status.QUEUED, Status.RUNNING)


class OverdueOperations:
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
        try:
            await self._failsafe.end(seized, late, self._ports.ids.new("err"))
        except Conflict:
            return  # it moves, so a replica works on it; the next look tells
