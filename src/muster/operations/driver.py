"""Lease operations and advance each until it ends.

One task per operation, woken by hints, polling anyway. The lease's epoch is the right to write; a task that
loses it stops. Nothing here must run for correctness: another replica continues from the stored rows.
"""

import asyncio
import logging
from collections.abc import Mapping

from muster.domain import traces
from muster.domain.backoff import backoff
from muster.domain.errors import Conflict, LeaseLost, NotFound, StoreUnavailable
from muster.domain.ids import OperationId
from muster.domain.operation import Kind, Operation
from muster.domain.settings import Settings
from muster.operations.driven_lease import DrivenLease, Next, OperationHandler
from muster.operations.failsafe import Failsafe
from muster.ports.bundle import Ports
from muster.ports.tracing import CURRENT
from muster.ports.wakeups import OPERATIONS, Listener, driver_topic

logger = logging.getLogger(__name__)

CONFLICTS_IN_A_ROW = 10
"""So many lost races without a pause look like a bug or a storm: then wait a little."""
PAUSE = 1.0
PAUSE_MOST = 8.0
"""Seconds before an operation is tried again that met an unforeseen error: each time twice as long."""


class Driver:
    def __init__(
        self,
        ports: Ports,
        settings: Settings,
        owner: str,
        handlers: Mapping[Kind, OperationHandler],
        failsafe: Failsafe,
    ) -> None:
        self._ports = ports
        self._settings = settings
        self._owner = owner
        self._handlers = handlers
        self._failsafe = failsafe
        self._leases: dict[OperationId, DrivenLease] = {}
        self._tasks: dict[OperationId, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None

    @property
    def driving(self) -> int:
        """Return how many operations are worked on. Queued operations take no place from a release."""
        return sum(1 for driven in self._leases.values() if not driven.queued)

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
        driven = self._leases.get(operation.id)
        if driven is not None and driven.fence == operation.fence:
            return
        driven = DrivenLease(
            owner=self._owner,
            fence=operation.fence,
            lease_until=operation.lease_until,
            errors=operation.errors,
            published_at=operation.updated_at,
        )
        self._drop(operation.id)
        self._leases[operation.id] = driven
        self._tasks[operation.id] = self._group.create_task(self._drive(operation, driven))

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
            alone = self._settings.absent_after is None
            await listener.wait(self._settings.poll_every if alone else self._settings.present_every)

    async def _lease_due(self) -> None:
        """Lease operations without a driver. Also asks without room: asking shows that this replica lives."""
        free = max(0, self._settings.driven_at_once - self.driving)
        silence = self._settings.absent_after
        if silence is None and not free:
            return
        now = self._ports.clock.now()
        taken = await self._ports.store.lease(
            self._owner,
            now=now,
            until=now + self._settings.lease,
            limit=free,
            absent_since=None if silence is None else now - silence,
            gone_since=now - self._settings.gone_after,
        )
        for operation in taken:
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
        until = self._ports.clock.now() + self._settings.lease
        # A lease that was prolonged for a call lasts longer already, and must.
        leases = [driven for driven in self._leases.values() if driven.lease_until < until]
        if not leases:
            return
        fences = [driven.fence for driven in leases]
        kept = {
            fence.operation_id: fence
            for fence in await self._ports.store.renew(self._owner, fences, until=until)
        }
        for driven in leases:
            if kept.get(driven.operation_id) == driven.fence:
                driven.lease_until = until
            elif self._leases.get(driven.operation_id) is driven:
                self._drop(driven.operation_id)

    def _drop(self, operation_id: OperationId) -> None:
        self._leases.pop(operation_id, None)
        task = self._tasks.pop(operation_id, None)
        if task is not None:
            task.cancel()

    async def _drive(self, operation: Operation, driven: DrivenLease) -> None:
        CURRENT.set(str(traces.of_operation(operation.id, operation.trace)))
        topics: tuple[str, ...] = (driver_topic(driven.operation_id),)
        listener = self._ports.wakeups.listen(topics)
        try:
            while True:
                following = await self._advance(operation.kind, driven)
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
        if self._leases.get(driven.operation_id) is driven:
            was_full = not self.has_room
            del self._leases[driven.operation_id]
            del self._tasks[driven.operation_id]
            if was_full:
                self._ports.wakeups.notify(OPERATIONS)

    async def _pause(self, listener: Listener, following: Next) -> None:
        seconds = following.at - self._ports.clock.now()
        if seconds > 0:
            await listener.wait(seconds)

    async def _advance(self, kind: Kind, driven: DrivenLease) -> Next | None:
        """Advance one step. Return when to look again; None: nothing more to do for this replica."""
        try:
            for _ in range(CONFLICTS_IN_A_ROW):
                try:
                    following = await self._handlers[kind].advance(driven)
                except LeaseLost:
                    return None
                except Conflict:
                    continue
                if driven.errors and following is not None:
                    await self._failsafe.advanced(driven)
                return following
        except LeaseLost:
            return None
        except StoreUnavailable as error:
            logger.warning(
                "cannot advance operation", extra={"operation_id": driven.operation_id, "error": str(error)}
            )
        except Exception as error:
            if isinstance(error, NotFound) and error.name == driven.operation_id:
                return None  # its submission never happened
            return await self._unforeseen(driven, error)
        return Next(at=self._ports.clock.now() + PAUSE * (1 + self._ports.ids.jitter()))

    async def _unforeseen(self, driven: DrivenLease, error: Exception) -> Next | None:
        """Count an unforeseen error. A few in a row end the operation.

        A bug must neither stop the replica nor block what others wait for.
        """
        names = {"operation_id": driven.operation_id, "error_id": self._ports.ids.new("err")}
        logger.error("operation failed to advance", exc_info=error, extra=names)
        try:
            if await self._failsafe.erred(driven, error, names["error_id"]):
                return None
        except LeaseLost:
            return None
        except (Conflict, StoreUnavailable) as problem:
            logger.warning("cannot write down an error", extra={**names, "error": str(problem)})
        except Exception:
            logger.exception("cannot write down an error", extra=names)
        # Not interrupted by wake-ups: what was just written would be one.
        pause = backoff(driven.errors - 1, first=PAUSE, most=PAUSE_MOST)
        await self._ports.clock.sleep(pause * (1 + self._ports.ids.jitter() / 4))
        return Next(at=self._ports.clock.now())
