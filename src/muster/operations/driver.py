"""The driver: leases operations and advances each until it ends.

One task per operation, woken by hints, polling anyway. Its right to write is the lease's epoch; when that
is gone the task stops, whatever it was doing. Nothing here must run for correctness: a replica that dies
leaves rows that another one reads.
"""

import asyncio
import logging
from collections.abc import Mapping

from muster.domain.errors import Conflict, LeaseLost, NotFound, StoreUnavailable
from muster.domain.ids import OperationId
from muster.domain.operation import Kind, Operation
from muster.domain.settings import Settings
from muster.operations.tenure import Next, Tenure, Workflow
from muster.ports.bundle import Ports
from muster.ports.wakeups import OPERATIONS, Listener, driver_topic

logger = logging.getLogger(__name__)

CONFLICTS_IN_A_ROW = 10
"""So many lost races without a pause look like a bug or a storm: then wait a little."""
PAUSE = 1.0


class Driver:
    def __init__(
        self, ports: Ports, settings: Settings, owner: str, workflows: Mapping[Kind, Workflow]
    ) -> None:
        self._ports = ports
        self._settings = settings
        self._owner = owner
        self._workflows = workflows
        self._tenures: dict[OperationId, Tenure] = {}
        self._tasks: dict[OperationId, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None

    @property
    def driving(self) -> int:
        """Operations that are worked on. Those that wait in line take no place from a release."""
        return sum(1 for tenure in self._tenures.values() if not tenure.queued)

    @property
    def has_room(self) -> bool:
        return self._group is not None and self.driving < self._settings.driven_at_once

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            group.create_task(self._renew_for_ever())
            await self._lease_for_ever()

    def take(self, operation: Operation) -> None:
        """Drive an operation whose lease we hold. A newer lease of our own replaces an older one."""
        if self._group is None or operation.lease_owner != self._owner or operation.ended:
            return
        driven = self._tenures.get(operation.id)
        if driven is not None and driven.fence == operation.fence:
            return
        tenure = Tenure(
            fence=operation.fence,
            lease_until=operation.lease_until,
            published_at=operation.updated_at,
        )
        self._drop(operation.id)
        self._tenures[operation.id] = tenure
        self._tasks[operation.id] = self._group.create_task(self._drive(operation.kind, tenure))

    async def _lease_for_ever(self) -> None:
        listener = self._ports.wakeups.listen((OPERATIONS,))
        while True:
            try:
                await self._lease_due()
            except StoreUnavailable as error:
                logger.warning("cannot lease operations", extra={"error": str(error)})
            except Exception:
                # Whatever it was, the replica lives on; the next turn tries again.
                logger.exception("cannot lease operations")
            await listener.wait(self._settings.poll_every)

    async def _lease_due(self) -> None:
        free = self._settings.driven_at_once - self.driving
        if free <= 0:
            return
        now = self._ports.clock.now()
        until = now + self._settings.lease
        for operation in await self._ports.store.lease(self._owner, now=now, until=until, limit=free):
            self.take(operation)

    async def _renew_for_ever(self) -> None:
        while True:
            await self._ports.clock.sleep(self._settings.renew_every)
            try:
                await self._renew()
            except StoreUnavailable as error:
                logger.warning("cannot renew leases", extra={"error": str(error)})
            except Exception:
                # Whatever it was, the replica lives on; the next turn tries again.
                logger.exception("cannot renew leases")

    async def _renew(self) -> None:
        tenures = list(self._tenures.values())
        if not tenures:
            return
        until = self._ports.clock.now() + self._settings.lease
        fences = [tenure.fence for tenure in tenures]
        kept = {
            fence.operation_id: fence
            for fence in await self._ports.store.renew(self._owner, fences, until=until)
        }
        for tenure in tenures:
            if kept.get(tenure.operation_id) == tenure.fence:
                tenure.lease_until = until
            elif self._tenures.get(tenure.operation_id) is tenure:
                self._drop(tenure.operation_id)

    def _drop(self, operation_id: OperationId) -> None:
        self._tenures.pop(operation_id, None)
        task = self._tasks.pop(operation_id, None)
        if task is not None:
            task.cancel()

    async def _drive(self, kind: Kind, tenure: Tenure) -> None:
        topics: tuple[str, ...] = (driver_topic(tenure.operation_id),)
        listener = self._ports.wakeups.listen(topics)
        try:
            while True:
                following = await self._advance(kind, tenure)
                if following is None:
                    break
                if following.also is not None and following.also not in topics:
                    # Listen first, look again after: nothing that happens in between is missed.
                    listener.close()
                    topics = (*topics, following.also)
                    listener = self._ports.wakeups.listen(topics)
                    continue
                await self._pause(listener, following)
        finally:
            listener.close()
        if self._tenures.get(tenure.operation_id) is tenure:
            del self._tenures[tenure.operation_id]
            del self._tasks[tenure.operation_id]

    async def _pause(self, listener: Listener, following: Next) -> None:
        seconds = following.at - self._ports.clock.now()
        if seconds > 0:
            await listener.wait(seconds)

    async def _advance(self, kind: Kind, tenure: Tenure) -> Next | None:
        """One step, or the reason for a pause. None: nothing more to do for us."""
        try:
            for _ in range(CONFLICTS_IN_A_ROW):
                try:
                    return await self._workflows[kind].advance(tenure)
                except LeaseLost:
                    return None
                except Conflict:
                    continue
        except NotFound as error:
            if error.name == tenure.operation_id:
                return None  # its submission never happened
            logger.exception("operation failed to advance", extra={"operation_id": tenure.operation_id})
        except StoreUnavailable as error:
            logger.warning(
                "cannot advance operation", extra={"operation_id": tenure.operation_id, "error": str(error)}
            )
        except Exception:
            # A bug must not take the replica with it: the operation's own deadline still holds.
            logger.exception("operation failed to advance", extra={"operation_id": tenure.operation_id})
        return Next(at=self._ports.clock.now() + PAUSE * (1 + self._ports.ids.jitter()))
