"""Send the head of a response together with the first part of its body: one send per answer.

A send to a socket costs a short answer more than anything else, on both ends. The receiver wakes up for the
head, and again for the body. The head of a stream does not wait for its body.
"""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_HEAD = b"HTTP/1."
_ADDRESSES = ("peername", "sockname")


class JoiningTransport:
    """Wraps a transport, as far as HTTP needs one."""

    __slots__ = ("_held", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held = b""

    def write(self, data: bytes) -> None:
        if self._held:
            held, self._held = self._held, b""
            self._transport.write(held + data)
        elif data.startswith(_HEAD):
            self._held = data
            self._loop.call_soon(self._flush)
        else:
            self._transport.write(data)

    def send(self, answer: bytes) -> None:
        """Write a whole answer."""
        self._flush()
        self._transport.write(answer)

    def released(self) -> asyncio.Transport:
        """Send what is held, and return the transport itself."""
        self._flush()
        return self._transport

    def _flush(self) -> None:
        if self._held:
            held, self._held = self._held, b""
            self._transport.write(held)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the transport knows, but no socket.

        uvicorn would ask a socket for both addresses, with some ten system calls. The transport has them
        already. Of an address, only host and port are returned.
        """
        if name == "socket":
            return default
        info = self._transport.get_extra_info(name, default)
        return info[:2] if name in _ADDRESSES and info else info

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class HttpProtocol(HttpToolsProtocol):
    __slots__ = ("_joining",)  # beside the base's attributes, whose number is what instances can share

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # narrower there
        self._joining = JoiningTransport(transport, self.loop)
        super().connection_made(cast("asyncio.Transport", self._joining))

    def send(self, answer: bytes) -> None:
        """A whole one, head and body."""
        self._joining.send(answer)

    def leave(self) -> asyncio.Transport | None:
        """Take the connection out of HTTP, in the middle of an answer, and return its transport. None: the
        connection is lost, or another request waits on it.

        uvicorn is told that the connection was lost, so it lets go of the request and of all that it keeps
        for a connection. The caller gives the transport another protocol.
        """
        if self.pipeline or self._joining.is_closing():
            return None
        self.flow.resume_reading()
        self._unset_keepalive_if_required()
        transport = self._joining.released()
        self.connection_lost(ConnectionAbortedError("another protocol has the connection now"))
        return transport
