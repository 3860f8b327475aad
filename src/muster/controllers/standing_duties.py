"""Perform standing duties: work that goes on without end, such as a long poll. Each is leased in the store.

The holder renews the lease three times in its term. A lease that is lost, or that can't be renewed in time,
cancels the work before another replica can begin it. Which duties there are may change at any time.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from muster.domain.backoff import backoff, spread
from muster.domain.errors import ProviderError, StoreUnavailable
from muster.domain.redaction import told
from muster.ports.bundle import Ports
from muster.ports.duties import StandingDuties, StandingDuty

logger = logging.getLogger(__name__)

LOOK_EVERY = 5.0
"""Seconds between two looks at which duties are wanted, and at a lease that another replica holds."""
RENEWALS = 3
"""Times that a lease is renewed in its term."""
MARGIN = 0.1
"""The last part of a lease's term, in which work is cancelled rather than renewed."""
PAUSE, PAUSE_MOST = 2.0, 60.0
"""Seconds before work that ended is begun again: at first, and at most."""


@dataclass(slots=True, kw_only=True)
class _Lease:
    until: float
    problem: str = ""
    """What ended the work before; told with the next renewal."""
    failures: int = 0
    """In a row."""


class StandingDutyKeeper:
    def __init__(self, ports: Ports, owner: str, sources: Sequence[StandingDuties], *, lease: float) -> None:
        self._ports = ports
        self._clock = ports.clock
        self._owner = owner
        self._sources = sources
        self._term = lease

    async def run(self) -> None:
        performed: dict[str, tuple[object, asyncio.Task[None]]] = {}
        try:
            while self._sources:
                await self._follow(performed)
                await self._clock.sleep(LOOK_EVERY)
        finally:
            await _cancel([task for _, task in performed.values()])

    async def _follow(self, performed: dict[str, tuple[object, asyncio.Task[None]]]) -> None:
        """Begin what is wanted and not begun; end what is not wanted any more, or has other content."""
        try:
            wanted = {duty.name: duty for source in self._sources for duty in await source.wanted()}
        except StoreUnavailable as error:
            logger.info("cannot look for standing duties", extra={"error": repr(error)})
            return
        for name, (content, task) in list(performed.items()):
            if name not in wanted or wanted[name].content != content:
                del performed[name]
                await _cancel([task])
        for name, duty in wanted.items():
            if name not in performed:
                performed[name] = (duty.content, asyncio.create_task(self._keep(duty)))

    async def _keep(self, duty: StandingDuty) -> None:
        """Perform the duty whenever this replica holds its lease."""
        lease = _Lease(until=0.0)
        while True:
            if await self._renewed(duty, lease):
                await self._hold(duty, lease)
            if lease.failures:
                pause = backoff(lease.failures - 1, first=PAUSE, most=PAUSE_MOST)
                await self._clock.sleep(spread(pause, self._ports.ids.jitter()))
            else:
                await self._clock.sleep(LOOK_EVERY)

    async def _hold(self, duty: StandingDuty, lease: _Lease) -> None:
        """Perform the duty until it ends or the lease is lost. A cancellation gives the lease back."""
        work = asyncio.create_task(self._perform(duty, lease))
        renewing = asyncio.create_task(self._renew(duty, lease))
        try:
            await asyncio.wait({work, renewing}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await _cancel([work, renewing])
            with suppress(StoreUnavailable):
                now = self._clock.now()
                await self._ports.store.lease_duty(duty.name, self._owner, now=now, until=now)
            raise
        await _cancel([work, renewing])

    async def _perform(self, duty: StandingDuty, lease: _Lease) -> None:
        began = self._clock.now()
        try:
            await duty.perform(lambda: self._clock.now() < lease.until)
        except (ProviderError, StoreUnavailable, TimeoutError) as error:
            lease.problem = told(error)
            logger.warning("standing duty interrupted", extra={"duty": duty.name, "error": repr(error)})
        except Exception as error:
            # A bug in one duty must not stop the others; it begins again after a pause.
            lease.problem = told(error)
            logger.exception("standing duty failed", extra={"duty": duty.name})
        lasted = self._clock.now() - began > PAUSE_MOST
        lease.failures = 1 if lasted else lease.failures + 1

    async def _renew(self, duty: StandingDuty, lease: _Lease) -> None:
        """Renew the lease until it is lost, or until its end is near and the store does not answer."""
        margin = self._term * MARGIN
        while (left := lease.until - margin - self._clock.now()) > 0.0:
            await self._clock.sleep(min(self._term / RENEWALS, left))
            try:
                async with asyncio.timeout(max(0.0, lease.until - margin - self._clock.now())):
                    if not await self._renewed(duty, lease, tolerant=True):
                        return
            except TimeoutError:
                return

    async def _renewed(self, duty: StandingDuty, lease: _Lease, *, tolerant: bool = False) -> bool:
        """Take or renew the lease. `tolerant`: an unanswered renewal leaves it as it is."""
        now, problem = self._clock.now(), lease.problem
        try:
            held = await self._ports.store.lease_duty(
                duty.name, self._owner, now=now, until=now + self._term, problem=problem
            )
        except StoreUnavailable:
            return tolerant
        lease.until = now + self._term if held else 0.0
        lease.problem = "" if held else problem
        return held


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
