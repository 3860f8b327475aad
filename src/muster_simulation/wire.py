"""A stream between a replica and an agent, as a connection carries it: in order, until it breaks.

Owns the agent's end. The world delivers to it, so that the death of either side leaves it whole. An agent
notices a break at once, or, if nothing tells it, by the silence.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NoReturn

from muster.domain.desired_state import Desired
from muster_simulation.loop import Gate


class Unreachable(Exception):
    """No answer: no replica there, a broken connection, or a timeout. It may have happened."""


class Silent(Unreachable):
    """No line came for too long."""


class Wire:
    def __init__(
        self,
        *,
        reachable: Callable[[], bool],
        lost: Callable[[], None],
        hear: Callable[[Desired], None],
        life: Gate,
    ) -> None:
        """`reachable`: whether the agent can be reached now. `lost`: called for what it doesn't get. `hear`:
        called for each line, as soon as its agent's life runs."""
        self.open = True
        self.heard = False
        """Whether a line came."""
        self.cut = False
        """Nothing comes through any more, whether or not the agent noticed."""
        self._reachable = reachable
        self._hear = hear
        self._life = life
        self.lose = lost
        self._lines: deque[Desired] = deque()
        self._end: BaseException | None = None
        self._waiting: asyncio.Future[None] | None = None
        self._since = 0.0
        """Since when no line came."""
        self._free_at = 0.0
        """When the line before has arrived: none overtakes another."""

    async def follow(self, within: float) -> NoReturn:
        """Let the agent hear each line. Raises what ended the stream, or Unreachable after so much
        silence."""
        loop = asyncio.get_running_loop()
        self._since = loop.time()
        while True:
            while self._lines:
                self._take(self._lines.popleft(), loop.time())
            if self._end is not None:
                raise self._end
            if loop.time() >= self._since + within:
                raise Silent("a silent stream")
            # Not set anew for each line: when it fires, the silence may have begun later.
            timer = loop.call_at(self._since + within, self._wake)
            self._waiting = loop.create_future()
            try:
                await self._waiting
            finally:
                timer.cancel()
                self._waiting = None

    def _take(self, line: Desired, now: float) -> None:
        self._since = now
        self.heard = True
        self._hear(line)

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
        if self._waiting is None or self._waiting.done() or self._life.shut:
            self._lines.append(desired)
            self._wake()
        else:
            self._take(desired, asyncio.get_running_loop().time())

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
