"""The limit on registrations: so many in any minute, over all replicas of the installation.

The minute's registrations are split into shares. A replica that needs one leases it in the store, uses it
for a few seconds, and leaves it until a minute has passed. The lease is never renewed, so every replica has
its chance.
"""

import asyncio
from collections import deque
from dataclasses import dataclass

from muster.domain.errors import Throttled
from muster.ports.clock import Clock
from muster.ports.store import Store

MINUTE = 60.0
SHARES = 12
USED_FOR = 5.0
"""Seconds for which a replica uses a share. What is left of it then is lost for this minute."""
AGAIN = 2.0
"""Seconds after which a share of another replica may be free."""


@dataclass(slots=True)
class _Share:
    until: float
    left: int


class RegistrationLimit:
    def __init__(self, clock: Clock, per_minute: int) -> None:
        self._clock = clock
        self.per_minute = per_minute
        self._made: deque[float] = deque()
        """When this replica registered, in the last minute."""
        self._store: Store | None = None
        self._owner = ""
        self._share = _Share(until=0.0, left=0)
        self._taken: dict[int, float] = {}
        """Until when the shares that this replica took are leased."""
        self._turn = asyncio.Lock()

    def divide(self, store: Store, owner: str) -> None:
        """Share the limit with all replicas over the store. Until then, this replica has it for itself."""
        self._store = store
        # Not the replica's own name: leases under that one lapse when it ends, and these must not.
        self._owner = f"{owner}/registrations"

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
        """Use up one registration of a share, a fresh one if need be."""
        now = self._clock.now()
        if self._share.left < 1 or now >= self._share.until:
            number = await self._leased(store, now)
            self._share = _Share(until=now + USED_FOR, left=self._size(number))
        self._share.left -= 1

    async def _leased(self, store: Store, now: float) -> int:
        until = now + USED_FOR + MINUTE
        for number in range(min(SHARES, self.per_minute)):
            if self._taken.get(number, 0.0) > now:
                continue
            if await store.lease_duty(f"github_registrations/{number}", self._owner, now=now, until=until):
                self._taken[number] = until
                return number
        raise self._throttled(AGAIN)

    def _size(self, number: int) -> int:
        """Return how many registrations a share has. Together they are the limit."""
        count = min(SHARES, self.per_minute)
        return self.per_minute // count + (number < self.per_minute % count)

    def _throttled(self, pause: float) -> Throttled:
        words = f"cannot register a runner: Muster registers {self.per_minute} in a minute at most"
        return Throttled(words, pause)
