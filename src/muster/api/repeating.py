"""Beats that come again and again on a connection, answered where they arrive.

A node says the same thing every five seconds, in the same bytes but for the body. Once such a request has
gone the usual way twice, its head is known to the connection, and one that begins with the very same bytes
means the very same thing: no parser and no task is needed to say so. Who may beat is asked all the same, of
`Beats`, which knows what it has verified; whatever it doesn't know goes the usual way.
"""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any, ClassVar, cast

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from muster.api.beats import BODY_MOST, PATH, Beats, authorization_of
from muster.api.connections import Bounded, Lines
from muster.api.middleware import HEADERS
from muster.domain.errors import InvalidRequest

_END = b"\r\n\r\n"
_BEGIN = b"POST %s HTTP/1.1\r\n" % PATH.encode()
_STATUS = b"HTTP/1.1 200 OK\r\n"
_SEAL = b"".join(b"%s: %s\r\n" % each for each in HEADERS) + b"\r\n"


@dataclass(frozen=True, slots=True)
class _Request:
    """One that went the usual way."""

    head: bytes
    size: int
    """Of all of it: the head says how long the body is."""
    key: bytes


class Repeating(Bounded):
    __slots__ = ("_beat_at", "_head", "_known")

    beats: ClassVar[Beats]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._known: _Request | None = None
        self._head = b""
        """Of the last beat that went the usual way. A proxy may send those of many nodes in turn: only what
        comes twice is worth knowing."""
        self._beat_at = 0.0

    def data_received(self, data: bytes) -> None:
        known = self._known
        if (
            known is not None
            and len(data) == known.size
            and data.startswith(known.head)
            and self._at_rest()
            and self._answer(known, data)
        ):
            return
        super().data_received(data)
        if data.startswith(_BEGIN):
            head, end, _ = data.partition(_END)
            if end and head + end == self._head:
                self._learn(head + end, len(data))
            # A head that isn't whole yet is no head: another request may begin with the same bytes.
            self._head = head + end if end else b""

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._known is not None and self._at_rest():
            # What is left of a request: that of ten thousand nodes weighs something.
            self.cycle = self.scope = None  # type: ignore[assignment]  # as before the first request
            self.headers = []

    def timeout_keep_alive_handler(self) -> None:
        """A repeated beat doesn't touch the timer: it looks when it rings."""
        left = self._beat_at + self.timeout_keep_alive - self.loop.time()
        if left <= 0:
            super().timeout_keep_alive_handler()
        else:
            self.timeout_keep_alive_task = self.loop.call_later(left, self.timeout_keep_alive_handler)

    def _at_rest(self) -> bool:
        """Nothing of an earlier request is under way, and the peer takes its answers."""
        last = cast("RequestResponseCycle | None", self.cycle)
        return (
            not self._midway
            and (last is None or last.response_complete)
            and not self.pipeline
            and not self.flow.write_paused
            and not self.transport.is_closing()
        )

    def _answer(self, known: _Request, data: bytes) -> bool:
        try:
            version = self.beats.again(known.key, data[len(known.head) :])
        except InvalidRequest:
            return False  # the usual way says what is wrong
        if version is None:
            return False
        body = b'{"version":%d}' % version
        head = [_STATUS, *(b"%s: %s\r\n" % each for each in self.server_state.default_headers)]
        head.append(b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body))
        head.append(_SEAL)
        self._beat_at = self.loop.time()
        self.send(b"".join(head) + body)
        return True

    def _learn(self, head: bytes, size: int) -> None:
        """Only a request that came alone and whole, and leaves the connection open."""
        if self._midway or not self.cycle.keep_alive or size - len(head) > BODY_MOST:
            return
        lengths = [value for name, value in self.headers if name == b"content-length"]
        if self.expect_100_continue or lengths != [b"%d" % (size - len(head))]:
            return
        key = sha256(authorization_of(self.headers)).digest()
        self._known = _Request(head=head, size=size, key=key)


def repeating(beats: Beats) -> type[Repeating]:
    """The protocol of a server whose heartbeats these are."""

    class Ours(Repeating):
        __slots__ = ()

    Ours.beats, Ours.lines = beats, Lines()
    return Ours
