"""Keep the streams on which nodes get their desired state at this replica: one per node, the newest.

Decides when a line is due, and remembers what each node was sent last, so that nothing is sent twice. A
change of the record's version alone is not sent, nor what the answer to the node's own report says. Knows
nothing of HTTP.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Self, TypeVar

from muster.domain.ids import NodeId
from muster.ports.clock import Clock
from muster.ports.ids import Ids
from muster.ports.wakeups import Listener, Wakeups, node_topic

T = TypeVar("T")
SILENT_MOST = 24.0
"""Seconds between two lines. Agents wait 30 s for one, and so do some proxies."""
SPREAD_LEAST = 1.0
SPREAD_RATE = 1000
"""New streams per second that a replica is asked to take when it comes back."""


class Cause(StrEnum):
    """Why a line is sent."""

    FIRST = "first"
    NEWS = "news"
    ALIVE = "alive"
    """Nothing is new, but a silent stream is a broken one."""


class Stream:
    """One node's. `last_sent` is what was last sent, in the form that its owner compares."""

    __slots__ = ("_due", "_listener", "_node_id", "_streams", "answering", "ended", "last_sent", "missed")

    def __init__(self, streams: "Streams", node_id: NodeId, listener: Listener) -> None:
        self._streams = streams
        self._node_id = node_id
        self._listener = listener
        self._due = 0.0
        """When the next line is sent, whether or not there is news."""
        self.last_sent: object = None
        self.ended = False
        self.answering = 0
        """Reports of the node that are being answered: the answer says what is new."""
        self.missed = False
        """It was woken meanwhile."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def silent(self) -> bool:
        """Whether a line is due even without news."""
        return self._streams.now() >= self._due

    async def first(self, look: Callable[[], Awaitable[T]], meaning: Callable[[T], object]) -> T:
        """Return what the first line says.

        `look` reads what the node should do, and `meaning` returns what of it the node would act on. What
        `look` raises ends the stream.
        """
        found = await look()
        self._sending(meaning(found))
        return found

    async def next(
        self,
        look: Callable[[], Awaitable[T]],
        meaning: Callable[[T], object],
        over: Callable[[], bool],
    ) -> tuple[Cause, T] | None:
        """Wait for the next line and return it with its cause. None: the stream has ended.

        `over` says whether there is a reason to end the stream. It is asked at each wake-up.
        """
        while True:
            woken = await self._listener.wait(max(0.0, self._due - self._streams.now()))
            # A timer may fire a moment early: to look and wait once more would cost as much as the line.
            silent = not woken or self.silent
            if self.ended or over():
                return None
            if not silent and self._defers():
                continue
            found = await look()
            if silent or meaning(found) != self.last_sent:
                self._sending(meaning(found))
                return Cause.ALIVE if silent else Cause.NEWS, found

    def _sending(self, meant: object) -> None:
        self.last_sent = meant
        self._due = self._streams.next_sign_of_life()

    def _defers(self) -> bool:
        """Return whether an answer will carry the news. The stream is woken once more after the answer."""
        self.missed = self.answering > 0
        return self.missed

    def close(self) -> None:
        self.ended = True
        self._listener.close()
        self._streams.closed(self._node_id, self)


class Streams:
    def __init__(self, wakeups: Wakeups, clock: Clock, ids: Ids) -> None:
        self._wakeups = wakeups
        self._clock = clock
        self._ids = ids
        self._open: dict[NodeId, Stream] = {}

    def __len__(self) -> int:
        return len(self._open)

    @property
    def spread(self) -> float:
        """Return the seconds over which the nodes should reconnect if all streams break at once."""
        return max(SPREAD_LEAST, len(self._open) / SPREAD_RATE)

    def now(self) -> float:
        return self._clock.now()

    def next_sign_of_life(self) -> float:
        return self._clock.now() + SILENT_MOST * (0.9 + 0.1 * self._ids.jitter())

    def open(self, node_id: NodeId, *unless: str) -> Stream:
        """Open the node's stream and end an earlier one. `unless`: other topics that wake it. The caller
        closes it."""
        self._end_here(node_id)
        listener = self._wakeups.listen((node_topic(node_id), *unless))
        stream = self._open[node_id] = Stream(self, node_id, listener)
        return stream

    def closed(self, node_id: NodeId, stream: Stream) -> None:
        if self._open.get(node_id) is stream:
            del self._open[node_id]

    def end(self, node_id: NodeId) -> None:
        """End the node's stream, because the node has a new token. Another replica that has the stream is
        woken, and its look at the store ends the stream."""
        self._end_here(node_id)
        self._wakeups.notify(node_topic(node_id))

    def _end_here(self, node_id: NodeId) -> None:
        stream = self._open.pop(node_id, None)
        if stream is not None:
            stream.ended = True
            self._wakeups.notify(node_topic(node_id))

    @contextmanager
    def answering(self, node_id: NodeId) -> Iterator[Stream | None]:
        """Keep the node's stream silent while a report of the node is answered.

        The caller stores what the answer sent, if there was one.
        """
        stream = self._open.get(node_id)
        if stream is None:
            yield None
            return
        stream.answering += 1
        try:
            yield stream
        finally:
            stream.answering -= 1
            if stream.missed:
                self._wakeups.notify(node_topic(node_id))
