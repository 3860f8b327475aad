"""The limit on registrations: so many in any minute, over all replicas of the installation.

The minute's registrations are split into shares. A replica that needs one leases a share in the store, and
uses it until it is empty. The lease lasts until a minute after the last use. No restart and no end of a
replica frees it earlier.
"""

import asyncio
from collections import deque
from dataclasses import dataclass

from muster.domain.errors import Throttled
from muster.ports.clock import Clock
from muster.ports.store import LASTING, Store

MINUTE = 60.0
SHARES = 24
RENEWED_EVERY = 5.0
"""Seconds of use that one write covers. A lease lasts for a minute longer."""
ASKED_EVERY = 5.0
"""Seconds for which a share is not asked for again, after another replica had it."""


@dataclass(slots=True)
class _Share:
    number: int
    left: int
    until: float
    """When its lease lapses."""


class RegistrationLimit:
    def __init__(self, clock: Clock, per_minute: int) -> None:
        self._clock = clock
        self.per_minute = per_minute
        self._made: deque[float] = deque()
        """When this replica registered, in the last minute."""
        self._store: Store | None = None
        self._owner = ""
        self._share: _Share | None = None
        self._not_before: dict[int, float] = {}
        """When each share is worth asking for: this replica used it up, or another one had it."""
        self._turn = asyncio.Lock()

    def divide(self, store: Store, owner: str) -> None:
        """Share the limit with all replicas over the store. Until then, this replica has it for itself."""
        self._store = store
        self._owner = owner

    async def take(self) -> None:
        """Count one registration. Raises Throttled, with the seconds until there may be room again."""
        now = self._clock.now()
        while self._made and self._made[0] <= now - MINUTE:
            self._made.popleft()
        if len(self._made) >= self.per_minute:
            raise self._throttled(self._made[0] + MINUTE - now)
        if self._store is not None:
            async with self._turn:
                await self._use_share(self._store)
        self._made.append(self._clock.now())

    async def _use_share(self, store: Store) -> None:
        """Use up one registration of the share that this replica holds, of a fresh one if need be."""
        now = self._clock.now()
        share = self._share
        if share is None or not await self._usable(store, share, now):
            share = self._share = await self._fresh(store, now)
        share.left -= 1

    async def _usable(self, store: Store, share: _Share, now: float) -> bool:
        """Return whether a share has something left and a lease for a minute, which is renewed if need be."""
        if share.left < 1 or share.until <= now:
            return False
        return share.until >= now + MINUTE or await self._leased(store, share, now)

    async def _fresh(self, store: Store, now: float) -> _Share:
        count = min(SHARES, self.per_minute)
        for number in range(count):
            if self._not_before.get(number, 0.0) > now:
                continue
            share = _Share(number=number, left=self._size(number, count), until=0.0)
            if await self._leased(store, share, now):
                return share
        raise self._throttled(min(self._not_before.values()) - now)

    async def _leased(self, store: Store, share: _Share, now: float) -> bool:
        """Lease a share, or renew its lease, so that it lasts a minute longer than the next uses."""
        until = now + RENEWED_EVERY + MINUTE
        name = f"{LASTING}github_registrations/{share.number}"
        if not await store.lease_duty(name, self._owner, now=now, until=until):
            self._not_before[share.number] = now + ASKED_EVERY
            return False
        share.until = self._not_before[share.number] = until
        return True

    def _size(self, number: int, count: int) -> int:
        """Return how many registrations a share has. Together they are the limit."""
        return self.per_minute // count + (number < self.per_minute % count)

    def _throttled(self, pause: float) -> Throttled:
        words = f"cannot register a runner: Muster registers {self.per_minute} in a minute at most"
        return Throttled(words, pause)
