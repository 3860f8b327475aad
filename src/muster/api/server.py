"""Listen on a socket, and stop by draining: no new requests, present ones finish, streams end."""

import asyncio
import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from muster.api.app import Api
from muster.api.connections import BACKLOG, MESSAGE_MOST, UpgradedConnection
from muster.api.transport import HttpProtocol
from muster.domain.errors import MusterError

DRAIN_SECONDS = 10
KEEP_ALIVE_SECONDS = 75
"""Longer than any pause between two requests of an agent, so that its connection is still there."""


class CannotListen(MusterError):
    """The address can't be had."""


def bind(host: str, port: int, *, earlier: int | None = None) -> socket.socket:
    """Return a listening socket. Clients that connect wait until the server is up.

    For port 0 the `earlier` port is tried first, because nodes remember the address.
    """
    if port == 0 and earlier:
        try:
            return _bound(host, earlier)
        except CannotListen:
            pass
    return _bound(host, port)


def _bound(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise CannotListen(f"cannot listen on {host}: it is not an address of this machine") from error
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        # At once: until this socket listens, another process could bind to the same port.
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise CannotListen(f"cannot listen on {host}:{port}: {_why(error)}") from error
    listener.set_inheritable(False)
    return listener


def _why(error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return "the port is in use; stop what uses it, or choose another with --port"
        case errno.EACCES:
            return "no permission; ports below 1024 need root, choose another with --port"
        case errno.EADDRNOTAVAIL:
            return "it is not an address of this machine; check --host"
        case number:
            return os.strerror(number) if number else str(error)


def url_of(listener: socket.socket) -> str:
    """Return the URL under which this machine reaches the socket; loopback for a socket on every address."""
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):  # noqa: S104 — compared with, not bound to
        host = "127.0.0.1" if listener.family is socket.AF_INET else "::1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class HttpServer(uvicorn.Server):
    def __init__(self, api: Api, http: type[HttpProtocol], *, backlog: int = BACKLOG) -> None:
        super().__init__(
            uvicorn.Config(
                api,
                access_log=False,
                backlog=backlog,
                http=http,
                lifespan="off",
                log_config=None,
                log_level="warning",  # without a level, it makes lines that no handler takes
                proxy_headers=False,  # nothing here asks who or what stands between us and the caller
                server_header=False,
                timeout_graceful_shutdown=DRAIN_SECONDS,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                ws=UpgradedConnection,
                ws_max_size=MESSAGE_MOST,
                ws_per_message_deflate=False,  # what is typed is short, and echoes must not wait
            )
        )
        self._api = api
        self._open = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the composition root."""
        yield

    def stop(self) -> None:
        """Drain. A second call doesn't wait any longer."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def wait_until_open(self) -> None:
        """Wait until the server takes requests."""
        await self._open.wait()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._open.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._api.close()
        clock = asyncio.get_running_loop()
        until = clock.time() + DRAIN_SECONDS
        await super().shutdown(sockets)
        # Agents' streams had the same time as the requests, and get no more after it.
        await self._api.closed(0.0 if self.force_exit else max(0.0, until - clock.time()))
