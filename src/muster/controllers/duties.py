"""Run the periodic duties. Each is leased in the store, so that one replica at a time performs it.

replica A  ──leases──▶ reaper, sweep     One write renews what a replica holds and asks for the rest. When a
replica B  ──leases──▶ pool, orphans     holder dies, its leases expire and the next replica takes over.
                                         Duties write only guarded changes, so a holder that was paused past
                                         its lease does no harm.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from muster.domain.errors import Implausible, ProviderError, StoreUnavailable
from muster.domain.redaction import told
from muster.ports.bundle import Ports
from muster.ports.clock import Clock
from muster.ports.duties import Duty
from muster.ports.store import DutyLease

logger = logging.getLogger(__name__)

TICK_MOST = 60.0
"""A tick that takes longer is stopped, unless its duty is a slow one: something hangs."""
GATHER = 1.0
LEASE_TICKS = 3
"""A duty's lease outlasts this many of its intervals: a store that is slow doesn't lose it."""
RENEWALS = 3
"""Times that a lease is renewed in its term."""
EARLY = 0.9
"""A lease is renewed when so much of the time between two renewals is over: turns are not exact."""


class _Lease:
    """One duty's lease as this replica knows it, and what is to be told with the next renewal."""

    def __init__(self, duty: Duty, term: float, clock: Clock) -> None:
        self.duty = duty
        self.term = term
        self.wanted = False
        """It was asked for once: each duty at a time of its own, so that they spread over replicas."""
        self.ticked_at: float | None = None
        self.problem = ""
        """What kept the last tick from its end."""
        self._told = ""
        self._since = self._until = 0.0
        self._clock = clock
        self._gained = asyncio.Event()

    def due(self) -> bool:
        """Return whether the store should be asked: the lease doesn't last, a part of its term is over, or
        there is a problem to tell."""
        left = self._until - self._clock.now()
        part_is_over = left < self.term * (1 - EARLY / RENEWALS)
        return not self._lasts() or part_is_over or self.problem != self._told

    def _lasts(self) -> bool:
        """Return whether this replica holds the duty. Before the lease was asked for, it doesn't: the clock
        was set back, and other replicas go by theirs."""
        return self._since <= self._clock.now() < self._until

    def asked(self, now: float) -> DutyLease:
        return DutyLease(
            name=self.duty.name, until=now + self.term, ticked_at=self.ticked_at, problem=self.problem
        )

    def answered(self, asked: DutyLease, *, since: float, held: bool) -> None:
        self._since, self._until = (since, asked.until) if held else (0.0, 0.0)
        if held:
            self._told = asked.problem
            self._gained.set()

    async def held(self) -> None:
        """Wait until this replica holds the duty."""
        while not self._lasts():
            self._gained.clear()
            await self._gained.wait()


class Duties:
    def __init__(self, ports: Ports, owner: str, duties: Sequence[Duty], *, lease: float) -> None:
        self._ports = ports
        self._owner = owner
        self._renew_every = lease / RENEWALS
        self._leases = [_Lease(duty, max(lease, duty.every * LEASE_TICKS), ports.clock) for duty in duties]

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._renew_for_ever())
            for lease in self._leases:
                group.create_task(self._perform_for_ever(lease))

    async def _renew_for_ever(self) -> None:
        """Renew what this replica holds, and ask for what others hold. Also while ticks last."""
        while True:
            await self._ports.clock.sleep(self._renew_every)
            await self._ask([lease for lease in self._leases if lease.wanted and lease.due()])

    async def _ask(self, leases: Sequence[_Lease]) -> None:
        """Ask for leases in one write. A store that can't be reached leaves them as they are."""
        if not leases:
            return
        now = self._ports.clock.now()
        asked = [lease.asked(now) for lease in leases]
        if not await self._try(leases, asked, now):
            # Ask without texts: one that can't be stored must not cost all leases.
            await self._try(leases, [replace(each, problem="") for each in asked], now)

    async def _try(self, leases: Sequence[_Lease], asked: Sequence[DutyLease], now: float) -> bool:
        """Ask once. False: there was an error that nothing foresees."""
        try:
            held = await self._ports.store.lease_duties(self._owner, asked, now=now)
        except StoreUnavailable as error:
            logger.warning("cannot lease duties", extra={"error": repr(error)})
            return True
        except Exception:
            # Whatever it was, the replica lives on; the next turn tries again.
            logger.exception("cannot lease duties")
            return False
        for lease, each in zip(leases, asked, strict=True):
            lease.answered(each, since=now, held=each.name in held)
        return True

    async def _perform_for_ever(self, lease: _Lease) -> None:
        duty = lease.duty
        # Spread the first ticks, or every duty of every replica starts at once.
        await self._ports.clock.sleep(duty.every * self._ports.ids.jitter())
        lease.wanted = True
        await self._ask([lease])
        listener = self._ports.wakeups.listen(() if duty.woken_by is None else (duty.woken_by,))
        try:
            while True:
                await lease.held()
                worked = await self._perform(lease)
                took = worked if duty.steady else 0.0
                if await listener.wait(max(GATHER, duty.every - took)):
                    # Notices come in crowds: a moment after the first, one look answers them all.
                    await self._ports.clock.sleep(GATHER)
        finally:
            listener.close()

    async def _perform(self, lease: _Lease) -> float:
        """Perform the duty. Return how many seconds the work took."""
        duty, clock = lease.duty, self._ports.clock
        began = lease.ticked_at = clock.now()
        try:
            async with asyncio.timeout(max(TICK_MOST, lease.term)):
                await duty.work.reconcile()
        except (StoreUnavailable, ProviderError, Implausible, TimeoutError) as error:
            lease.problem = told(error)
            logger.warning("duty interrupted", extra={"duty": duty.name, "error": repr(error)})
        except Exception as error:
            # A bug in one duty must not stop the others; the next tick tries again.
            lease.problem = told(error)
            logger.exception("duty failed", extra={"duty": duty.name})
        else:
            lease.problem = ""
        return max(0.0, clock.now() - began)
