"""Runs the periodic duties. Each is leased in the store, so that one replica at a time performs it.

replica A  ──lease──▶ reaper, sweep      The holder renews by performing. When it dies, the lease lapses
replica B  ──lease──▶ pool, orphans      and whoever asks next takes over. Duties write only guarded
                                         changes, so a holder that was paused past its lease does no harm.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from muster.domain.errors import Implausible, ProviderError, StoreUnavailable
from muster.domain.redaction import told
from muster.ports.bundle import Ports

logger = logging.getLogger(__name__)

LEASE_LEAST = 60.0
GATHER = 1.0
LEASE_TICKS = 3
"""A duty's lease outlasts this many of its intervals: a slow tick doesn't lose it."""


class Reconciler(Protocol):
    async def reconcile(self) -> None:
        """Look at the world once and move it towards what it should be. Safe to repeat and to abandon."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Duty:
    name: str
    every: float
    work: Reconciler
    woken_by: str | None = None
    """A topic after whose notice it looks sooner. A hint: without it, it is only later."""
    steady: bool = False
    """Its ticks begin `every` seconds apart; without it, that is how long it rests between them."""


class Duties:
    def __init__(self, ports: Ports, owner: str, duties: Sequence[Duty]) -> None:
        self._ports = ports
        self._owner = owner
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
                await listener.wait(max(0.0, duty.every - took - GATHER))
                # Notices come in crowds: a moment after the first, one look answers them all.
                await self._ports.clock.sleep(GATHER)
        finally:
            listener.close()

    async def _perform(self, duty: Duty) -> float:
        """Gives how many seconds the work took, if it was ours."""
        now = self._ports.clock.now()
        until = now + max(LEASE_LEAST, duty.every * LEASE_TICKS)
        began: float | None = None
        try:
            if await self._ports.store.lease_duty(
                duty.name,
                self._owner,
                now=now,
                until=until,
                problem=self._problems.pop(duty.name, ""),
            ):
                began = self._ports.clock.now()
                # Whatever hangs, a duty doesn't outlive its lease, which runs since it was asked for.
                async with asyncio.timeout(until - began):
                    await duty.work.reconcile()
        except (StoreUnavailable, ProviderError, Implausible, TimeoutError) as error:
            self._problems[duty.name] = told(error)
            logger.warning("duty interrupted", extra={"duty": duty.name, "error": repr(error)})
        except Exception as error:
            # A bug in one duty must not stop the others; the next tick tries again.
            self._problems[duty.name] = told(error)
            logger.exception("duty failed", extra={"duty": duty.name})
        return 0.0 if began is None else max(0.0, self._ports.clock.now() - began)
