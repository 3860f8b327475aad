"""A stream between a replica and an agent, as a connection carries it: in order, until it breaks.

Owns the agent's end. The world delivers to it, so that the death of either side leaves it whole. An agent
notices a break at once, or, if nothing tells it, by the silence.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from muster.domain.desired_state import Desired


class Unreachable(Exception):
    """No answer: no replica there, a broken connection, or a timeout. It may have happened."""


class Silent(Unreachable):
    """No line came for too long."""


class Wire:
    def __init__(self, *, reachable: Callable[[], bool], lost: Callable[[], None]) -> None:
        """`reachable`: whether the agent can be reached now. `lost`: called for what it doesn't get."""
        self.open = True
        self.cut = False
        """Nothing comes through any more, whether or not the agent noticed."""
        self._reachable = reachable
        self.lose = lost
        self._lines: deque[Desired] = deque()
        self._end: BaseException | None = None
        self._waiting: asyncio.Future[None] | None = None
        self._free_at = 0.0
        """When the line before has arrived: none overtakes another."""

    async def line(self, within: float) -> Desired:
        """Wait for the next line. Raises what ended the stream, or Unreachable after so much silence."""
        if not self._lines and self._end is None:
            loop = asyncio.get_running_loop()
            self._waiting = loop.create_future()
            timer = loop.call_later(within, self._wake)
            try:
                await self._waiting
            finally:
                timer.cancel()
                self._waiting = None
        if self._lines:
            return self._lines.popleft()
        raise self._end or Silent("a silent stream")

    def arrival(self, now: float, latency: float) -> float:
        """When what is sent now arrives."""
        self._free_at = max(self._free_at, now + latency)
        return self._free_at

    def deliver(self, desired: Desired) -> None:
        if not self.open:
            return
        if not self._reachable():
            self.lose()
            return
        self._lines.append(desired)
        self._wake()

    def end(self, error: BaseException) -> None:
        """The agent hears that the stream is over."""
        if self.open and self._end is None:
            self._end = error
            self._wake()

    def close(self) -> None:
        """Stop listening. The replica learns it when it looks."""
        self.open = False

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
