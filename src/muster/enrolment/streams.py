"""Keep the streams on which nodes get their desired state at this replica: one per node, the newest.

Remembers what each node was sent last, so that nothing is sent twice. A change of the record's version alone
is not sent, nor what the answer to the node's own report says. Knows nothing of HTTP.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from muster.domain.ids import NodeId
from muster.ports.wakeups import Listener, Wakeups, node_topic

SPREAD_LEAST = 1.0
SPREAD_RATE = 1000
"""New streams per second that a replica is asked to take when it comes back."""


class Stream:
    """One node's. `last_sent` is what was last sent, in the form that the API compares."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self.last_sent: object = None
        self.ended = False
        self.answering = 0
        """Reports of the node that are being answered: the answer says what is new."""
        self.missed = False
        """It was woken meanwhile."""

    async def news(self, within: float) -> None:
        """Wait until there may be something to send, or so many seconds have passed."""
        await self._listener.wait(within)

    def defers(self) -> bool:
        """Return whether an answer will carry the news. The stream is woken once more after the answer."""
        self.missed = self.answering > 0
        return self.missed

    def close(self) -> None:
        self.ended = True
        self._listener.close()


class Streams:
    def __init__(self, wakeups: Wakeups) -> None:
        self._wakeups = wakeups
        self._open: dict[NodeId, Stream] = {}

    def __len__(self) -> int:
        return len(self._open)

    @property
    def spread(self) -> float:
        """Return the seconds over which the nodes should reconnect if all streams break at once."""
        return max(SPREAD_LEAST, len(self._open) / SPREAD_RATE)

    @contextmanager
    def open(self, node_id: NodeId, *, unless: str) -> Iterator[Stream]:
        """Open the node's stream and end an earlier one. `unless`: another topic that wakes it."""
        self.end(node_id)
        stream = self._open[node_id] = Stream(self._wakeups.listen((node_topic(node_id), unless)))
        try:
            yield stream
        finally:
            stream.close()
            if self._open.get(node_id) is stream:
                del self._open[node_id]

    def end(self, node_id: NodeId) -> None:
        """End the node's stream here: another connection speaks for the node, or it listens elsewhere."""
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
