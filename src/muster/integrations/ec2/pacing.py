"""A bounded rate for calls of one kind, and a pause for all of them when AWS says that it is too much."""

import asyncio
from collections.abc import Callable

from muster.domain.backoff import backoff, spread
from muster.ports.clock import Clock

FIRST = 1.0
MOST = 30.0


class Pacer:
    def __init__(self, clock: Clock, jitter: Callable[[], float], *, per_second: float) -> None:
        self._clock = clock
        self._jitter = jitter
        self._apart = 1.0 / per_second
        self._free_at = 0.0
        self._throttled = 0
        self._queue = asyncio.Lock()

    async def turn(self) -> None:
        """Until it is the caller's turn, in the order of asking. Who gives up waiting uses none up."""
        async with self._queue:
            while True:
                now = self._clock.now()
                # A clock that was set back must not hold up anybody for longer than a pause.
                self._free_at = min(self._free_at, now + MOST)
                if now >= self._free_at:
                    break
                await self._clock.sleep(self._free_at - now)
            self._free_at = now + self._apart

    @property
    def held(self) -> float:
        """Seconds for which AWS's throttling keeps everybody waiting."""
        return max(0.0, self._free_at - self._clock.now()) if self._throttled else 0.0

    def throttled(self) -> float:
        """AWS said so: nobody gets a turn for so many seconds, more each time."""
        pause = spread(backoff(self._throttled, first=FIRST, most=MOST), self._jitter())
        self._throttled = min(self._throttled + 1, 10)
        self._free_at = max(self._free_at, self._clock.now() + pause)
        return pause

    def answered(self) -> None:
        self._throttled = 0
