"""What one credential may still ask GitHub, and the pauses that GitHub wants. One for all uses of it.

GitHub says with each answer how much is left of the primary limit. Looks that can wait leave a reserve of it
to those who can't: a node that waits to be registered isn't held up by the watching of runs.
"""

import asyncio
from collections.abc import Mapping

from muster.domain.errors import Throttled
from muster.ports.clock import Clock

RESERVE = 0.2
"""The share of the limit that is kept for what can't wait."""
AT_ONCE = 20
"""Requests under way; beyond a hundred GitHub takes it for abuse, whoever else uses the credential."""


class Budget:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.turn = asyncio.Semaphore(AT_ONCE)
        self._paused_until = 0.0
        self._limit = 0
        self._left = 0
        self._resets_at = 0.0

    def check(self, what: str, *, patient: bool) -> None:
        """Raises Throttled if GitHub isn't to be asked now."""
        now = self._clock.now()
        if now < self._paused_until:
            left = self._paused_until - now
            raise Throttled(f"cannot {what}: GitHub asked for a pause, {left:.0f} s of it are left", left)
        least = self._limit * RESERVE if patient else 0.0
        if now < self._resets_at and self._left <= least:
            words = f"{self._left} of {self._limit} requests are left for {self._resets_at - now:.0f} s"
            raise Throttled(f"cannot {what} yet: {words}", self._resets_at - now)

    def heard(self, headers: Mapping[str, str]) -> None:
        said = [headers.get(f"x-ratelimit-{name}", "") for name in ("limit", "remaining", "reset")]
        if all(each.isdigit() for each in said):
            self._limit, self._left, self._resets_at = int(said[0]), int(said[1]), float(said[2])

    def pause(self, seconds: float) -> None:
        self._paused_until = max(self._paused_until, self._clock.now() + seconds)
