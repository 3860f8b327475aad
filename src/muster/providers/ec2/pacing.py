"""A bounded rate for calls of one kind, and a pause for all of them when AWS says that it is too much."""

from collections.abc import Callable

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

    async def turn(self) -> None:
        """Until it is the caller's turn, in the order of asking."""
        now = self._clock.now()
        mine = max(now, self._free_at)
        self._free_at = mine + self._apart
        if mine > now:
            await self._clock.sleep(mine - now)

    def throttled(self) -> float:
        """AWS said so: nobody gets a turn for so many seconds, more each time."""
        pause = min(FIRST * 2.0**self._throttled, MOST) * (0.5 + self._jitter() / 2)
        self._throttled = min(self._throttled + 1, 10)
        self._free_at = max(self._free_at, self._clock.now() + pause)
        return pause

    def answered(self) -> None:
        self._throttled = 0
