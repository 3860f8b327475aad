"""Bound connections: how much and how slowly callers may send, and how many may stay without a token.

A connection counts as a stranger until a request on it shows a valid token. Strangers share a part of the
file descriptors, and one address gets a part of that. If there are too many strangers, the server drops the
oldest one. A caller with a token shows it in its first request, so the silent connections give way. The
other descriptors are left to agents, operators and the server itself.
"""

import asyncio
import logging
import re
import resource
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, ClassVar, cast

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from muster.api.middleware import HEADERS
from muster.api.problems import Problem
from muster.api.transport import HttpProtocol
from muster.domain.codes import ProblemCode
from muster.wire.base import PROBLEM_TYPE

logger = logging.getLogger(__name__)

HEAD_MOST = 32 << 10
"""Bytes of a request before its body. The longest token is half of that."""
FIELDS_MOST = 100
HEAD_SECONDS = 15.0
"""From the connection, or a later request's first byte, to the end of the head."""
BODY_SECONDS = 30.0
BODY_LEAST = 1024
"""Bytes of a body that must come within each BODY_SECONDS."""
UNREAD_SECONDS = 30.0
"""After so long without reading its answer, a caller is dropped. A stream resumes by its last id."""
PER_ADDRESS = 100
DESCRIPTORS = 65536
"""What a server asks for, if it may have so many."""
BACKLOG = 2048
"""Connections that the system keeps for a server that is busy, at most."""
MESSAGE_MOST = 64 << 10
"""Bytes of one message on a WebSocket: twice what a terminal sends at once."""
IGNORED_MOST = 64 << 10
"""Bytes that a caller may send after its request while an answer goes out for hours."""
UNWANTED_MOST = 64 << 20
"""Bytes of a body that a caller may send on after its answer. Beyond this it does not read the answer."""
_KEY = re.compile(rb"[A-Za-z0-9+/]{22}==")
_HEAD, _BODY = "head", "body"
_CONNECTION = "connection"
"""The key under which the state of a request holds its connection."""


def raise_descriptors() -> None:
    """Raise the soft limit of open files. The usual 1024 is for programs that use select()."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


class ConnectionLimits:
    """The connections of a server. `descriptors`: how many files the process may have open."""

    def __init__(self, descriptors: int | None = None) -> None:
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if descriptors is None else descriptors
        most = DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
        self._strangers_most = most // 4
        self._most = most - min(512, most // 4)
        """The others are the server's own: its store, its files, its nodes."""
        self.backlog = min(BACKLOG, most // 16)
        """Connections accepted in one turn of the loop. A dropped one is closed four turns later. What comes
        in meanwhile fits into the server's own part."""
        self.count = 0
        self._strangers: dict[BoundedConnection, str] = {}
        self._by_address: dict[str, dict[BoundedConnection, None]] = {}

    def opened(self, connection: "BoundedConnection", address: str) -> None:
        self.count += 1
        self._strangers[connection] = address
        self._by_address.setdefault(address, {})[connection] = None
        self._make_room(address)

    def admitted(self, connection: "BoundedConnection") -> None:
        address = self._strangers.pop(connection, None)
        if address is not None:
            mates = self._by_address[address]
            del mates[connection]
            if not mates:
                del self._by_address[address]

    def closed(self, connection: "BoundedConnection") -> None:
        self.count -= 1
        self.admitted(connection)

    def handed_over(self) -> None:
        """Go on counting a connection whose protocol changed. Its caller showed a valid token."""
        self.count += 1

    def left(self) -> None:
        """Note that such a connection is closed."""
        self.count -= 1

    def _make_room(self, address: str) -> None:
        """Drop the oldest stranger if there are too many. The loop closes it later; it counts no longer."""
        if len(self._by_address[address]) > PER_ADDRESS:
            self._drop(self._by_address[address], f"{address} has {PER_ADDRESS} more")
        elif len(self._strangers) > self._strangers_most or self.count > self._most:
            self._drop(self._strangers, f"{self.count} connections are open")

    def _drop(self, connections: Iterable["BoundedConnection"], why: str) -> None:
        oldest = next(iter(connections))
        self.admitted(oldest)
        oldest.transport.abort()
        logger.warning("dropped the oldest connection that showed no valid token: %s", why)


class BoundedConnection(HttpProtocol):
    """One connection that is held to these bounds."""

    __slots__ = (
        "_advanced",
        "_in_head",
        "_marked",
        "_midway",
        "_overhead",
        "_phase",
        "_received",
        "_timer",
        "_unread",
        "_unwanted",
    )

    limits: ClassVar[ConnectionLimits]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_head = self._midway = self._advanced = False
        self._overhead = self._received = self._marked = self._unwanted = 0
        self._phase: str | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    # --- coming and going -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in the base
        super().connection_made(transport)
        self._expect(_HEAD)
        self.limits.opened(self, self.client[0] if self.client else "")

    def connection_lost(self, exc: Exception | None) -> None:
        self.limits.closed(self)
        self._expect(None)
        self._taken()
        super().connection_lost(exc)
        # Each refers back to the connection. Without them it is freed at once, not by the garbage collector.
        self.parser = self.scope = self.cycle = None  # type: ignore[assignment]  # nothing is read any more

    def admitted(self) -> None:
        """Note that a request on this connection showed a valid token."""
        self.limits.admitted(self)

    def hand_over(self) -> "ChunkedAnswer | None":
        """Leave HTTP when head and first chunk of an answer are sent. None: the connection is lost, or
        another request waits on it."""
        transport = self.leave()
        return None if transport is None else ChunkedAnswer(transport, self.limits)

    def _should_upgrade(self) -> bool:
        """Return whether the request asks for a WebSocket in the right form. Others are answered as HTTP."""
        given = dict(self.headers)
        key, version = given.get(b"sec-websocket-key", b""), given.get(b"sec-websocket-version")
        return super()._should_upgrade() and version == b"13" and _KEY.fullmatch(key) is not None

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection to its WebSocket. It stays counted here, and admitted by the same token."""
        self._midway = self._in_head = False
        self.app_state = {**self.app_state, _CONNECTION: self}
        super().handle_websocket_upgrade()

    # --- what is sent -----------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._advanced = False
        self._received += len(data)
        super().data_received(data)
        self._overhead = 0 if self._advanced or not self._midway else self._overhead + len(data)
        if self._overhead > HEAD_MOST and not self.transport.is_closing():
            self._refuse_head()
        self._expect(_HEAD if self._in_head else _BODY if self._midway else None)

    def on_message_begin(self) -> None:
        self._midway = self._in_head = True
        self._unwanted = 0
        super().on_message_begin()
        self.scope["state"][_CONNECTION] = self

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            raise ValueError("no trailer is taken")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._advanced = True
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > HEAD_MOST or len(self.headers) > FIELDS_MOST:
            self._overhead = HEAD_MOST + 1
            raise ValueError("the head is too large")
        if self.parser.get_http_version() not in ("1.0", "1.1"):
            raise ValueError("only HTTP/1.0 and 1.1 are spoken here")
        super().on_headers_complete()
        self._in_head = False

    def on_body(self, body: bytes) -> None:
        self._advanced = True
        super().on_body(body)
        last = self._last
        if last is not None and last.response_complete:
            self._unwanted += len(body)
            if self._unwanted > UNWANTED_MOST:
                self.transport.abort()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._midway = False

    # --- how slowly -------------------------------------------------------------------------------

    def _expect(self, phase: str | None) -> None:
        if phase is self._phase:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._phase, self._marked = phase, self._received
        if phase is not None:
            self._timer = self.loop.call_later(HEAD_SECONDS if phase is _HEAD else BODY_SECONDS, self._late)

    def _late(self) -> None:
        phase, self._phase = self._phase, None
        came = self._received - self._marked
        if phase is _BODY and (came >= BODY_LEAST or self.flow.read_paused):
            self._expect(phase)
        elif self._received and not self.transport.is_closing():
            rule = (
                f"send its head within {HEAD_SECONDS:g} s"
                if phase is _HEAD
                else f"send at least {BODY_LEAST} bytes of its body every {BODY_SECONDS:g} s"
            )
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, ProblemCode.TOO_SLOW, rule)
        else:
            self.transport.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        self._taken()
        super().resume_writing()

    def _taken(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    # --- what is refused --------------------------------------------------------------------------

    @property
    def _last(self) -> RequestResponseCycle | None:
        """Return the newest request with its answer. None: there was none."""
        return cast("RequestResponseCycle | None", self.cycle)

    def send_400_response(self, msg: str) -> None:
        if self._overhead > HEAD_MOST:
            self._refuse_head()
        else:
            self._refuse(
                HTTPStatus.BAD_REQUEST, ProblemCode.MALFORMED_REQUEST, "send HTTP/1.1 as it is written down"
            )

    def _refuse_head(self) -> None:
        rule = f"send a head of at most {HEAD_MOST} bytes in {FIELDS_MOST} fields"
        self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, ProblemCode.HEAD_TOO_LARGE, rule)

    def _refuse(self, status: HTTPStatus, code: ProblemCode, rule: str) -> None:
        """Send the last answer of the connection. If an answer is under way, cut it off instead."""
        last = self._last
        if last is not None and self._midway and not self._in_head:
            # The body of this request is at fault, so this is its answer.
            answerable = not last.response_started and not self.pipeline
            last.disconnected = True  # what its handler sends from now on is dropped
            last.message_event.set()
        else:
            answerable = last is None or last.response_complete
        if not answerable:
            self.transport.abort()
            return
        detail = f"cannot read the request: {rule}"
        body = Problem(status=status, code=code, title=status.phrase, detail=detail).body()
        fields = (
            (b"content-type", PROBLEM_TYPE.encode()),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
            *HEADERS,
        )
        head = b"".join(b"%s: %s\r\n" % field for field in fields)
        self.send(STATUS_LINE[status] + head + b"\r\n" + body)
        self.transport.close()


def connection_of(scope: Scope) -> BoundedConnection | None:
    """Return the connection of a request. None: the server is another one."""
    return cast("BoundedConnection | None", scope.get("state", {}).get(_CONNECTION))


def admitted(scope: Scope) -> None:
    """Note that the caller of a request showed a valid token."""
    connection = connection_of(scope)
    if connection is not None:
        connection.admitted()


class UpgradedConnection(WebSocketsSansIOProtocol):
    """A WebSocket on a connection that is held to these bounds."""

    @property
    def _connection(self) -> BoundedConnection:
        connection: BoundedConnection = self.app_state[_CONNECTION]
        return connection

    async def send(self, message: Any) -> None:
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True  # a refusal is an answer: uvicorn would log it as an error of ours

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.connection_lost(exc)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        self._connection.pause_writing()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()
        super().resume_writing()


class ChunkedAnswer(asyncio.Protocol):
    """The rest of a connection on which an answer goes out for hours, chunk by chunk.

    It keeps a tenth of what a connection with a request keeps, and is held to the same bounds. What the
    caller sends meanwhile is read and dropped, so that its end is noticed.
    """

    __slots__ = ("_ignored", "_limits", "_transport", "_unread", "_unsent", "lost")

    def __init__(self, transport: asyncio.Transport, limits: ConnectionLimits) -> None:
        self._transport = transport
        self._limits = limits
        self._unsent: asyncio.Future[None] | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._ignored = 0
        self.lost: Callable[[], object] = _nothing
        """Called when the connection is closed, by either side."""
        limits.handed_over()
        transport.set_protocol(self)
        # Whatever the system doesn't take at once counts as unread, so that at most one chunk is kept.
        transport.set_write_buffer_limits(high=0)
        if transport.get_write_buffer_size():
            self.pause_writing()  # the transport may have told HTTP, and tells it once

    def send(self, chunk: bytes) -> None:
        self._transport.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))

    async def taken(self) -> None:
        """Wait until all that was sent has left this process."""
        if self._unsent is not None:
            await self._unsent

    def finish(self) -> None:
        """End the answer, and with it the connection."""
        self._transport.write(b"0\r\n\r\n")
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    # --- what the transport tells -----------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._ignored += len(data)
        if self._ignored > IGNORED_MOST:
            self._transport.abort()

    def pause_writing(self) -> None:
        if self._unsent is not None:
            return
        loop = asyncio.get_running_loop()
        self._unsent = loop.create_future()
        self._unread = loop.call_later(UNREAD_SECONDS, self._transport.abort)

    def resume_writing(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
        if self._unsent is not None and not self._unsent.done():
            self._unsent.set_result(None)
        self._unread = self._unsent = None

    def connection_lost(self, exc: Exception | None) -> None:
        self.resume_writing()
        self._limits.left()
        self.lost()


def _nothing() -> None: ...


def bounded_protocol() -> type[BoundedConnection]:
    """Return the protocol of one server, with connections of its own."""

    class Ours(BoundedConnection):
        __slots__ = ()

    Ours.limits = ConnectionLimits()
    return Ours
