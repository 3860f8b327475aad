"""Run the periodic duties. Each is leased in the store, so that one replica at a time performs it.

replica A  ──lease──▶ reaper, sweep      The holder renews by each tick. When it dies, the lease expires
replica B  ──lease──▶ pool, orphans      and the next replica takes over. Duties write only guarded
                                         changes, so a holder that was paused past its lease does no harm.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from muster.domain.errors import Implausible, ProviderError, StoreUnavailable
from muster.domain.redaction import told
from muster.ports.bundle import Ports
from muster.ports.duties import Duty, Reconciler

__all__ = ["Duties", "Duty", "Reconciler"]

logger = logging.getLogger(__name__)

TICK_MOST = 60.0
"""A tick that takes longer is stopped, unless its duty is a slow one: something hangs."""
GATHER = 1.0
LEASE_TICKS = 3
"""A duty's lease outlasts this many of its intervals: a slow tick doesn't lose it."""


class Duties:
    def __init__(self, ports: Ports, owner: str, duties: Sequence[Duty], *, lease: float) -> None:
        self._ports = ports
        self._owner = owner
        self._lease = lease
        self._duties = duties
        self._problems: dict[str, str] = {}
        """What kept a duty's last tick from its end; told with the next."""

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for duty in self._duties:
                group.create_task(self._perform_for_ever(duty))

    async def _perform_for_ever(self, duty: Duty) -> None:
        # Spread the first ticks, or every duty of every replica starts at once.
        await self._ports.clock.sleep(duty.every * self._ports.ids.jitter())
        listener = self._ports.wakeups.listen(() if duty.woken_by is None else (duty.woken_by,))
        try:
            while True:
                worked = await self._perform(duty)
                took = worked if duty.steady else 0.0
                if await listener.wait(max(GATHER, duty.every - took)):
                    # Notices come in crowds: a moment after the first, one look answers them all.
                    await self._ports.clock.sleep(GATHER)
        finally:
            listener.close()

    async def _perform(self, duty: Duty) -> float:
        """Perform the duty if this replica holds it. Return how many seconds the work took."""
        now = self._ports.clock.now()
        term = max(self._lease, duty.every * LEASE_TICKS)
        latest = now + max(TICK_MOST, term)
        began: float | None = None
        try:
            if await self._hold(duty, now, term, self._problems.pop(duty.name, "")):
                began = self._ports.clock.now()
                async with asyncio.timeout(latest - began), self._held(duty, now + term, term, latest):
                    await duty.work.reconcile()
        except (StoreUnavailable, ProviderError, Implausible, TimeoutError) as error:
            self._problems[duty.name] = told(error)
            logger.warning("duty interrupted", extra={"duty": duty.name, "error": repr(error)})
        except Exception as error:
            # A bug in one duty must not stop the others; the next tick tries again.
            self._problems[duty.name] = told(error)
            logger.exception("duty failed", extra={"duty": duty.name})
        return 0.0 if began is None else max(0.0, self._ports.clock.now() - began)

    async def _hold(self, duty: Duty, now: float, term: float, problem: str = "") -> bool:
        return await self._ports.store.lease_duty(
            duty.name, self._owner, now=now, until=now + term, problem=problem
        )

    @asynccontextmanager
    async def _held(self, duty: Duty, until: float, term: float, latest: float) -> AsyncIterator[None]:
        """Renew the lease while the duty is performed, if its tick may take longer than that."""
        if until >= latest:
            yield
            return
        renewing = asyncio.create_task(self._renew(duty, term))
        try:
            yield
        finally:
            renewing.cancel()

    async def _renew(self, duty: Duty, term: float) -> None:
        """Renew the lease. A lost lease belongs to another replica. What this tick still writes
        is guarded."""
        held = True
        while held:
            await self._ports.clock.sleep(term / LEASE_TICKS)
            with suppress(StoreUnavailable):
                held = await self._hold(duty, self._ports.clock.now(), term)
