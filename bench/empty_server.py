"""The floor of everything over HTTP: raw handlers that do nothing, on the server's own settings of uvicorn.

`/hold` is answered when a request for `/wake` comes: the cheapest long poll there is.
"""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast
from urllib.parse import urlsplit

from starlette.types import Receive, Scope, Send

from bench.children import Child, child, say, told
from muster.api import Api
from muster.api.agent_stream import PATH
from muster.api.server import HttpServer, bind, url_of
from muster.api.transport import HttpProtocol
from muster.enrolment.streams import SILENT_MOST

_BODY = b"{}"
_LINE = b"{%s}\n" % (b" " * 250)
_HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"2")]


class Empty:
    def __init__(self) -> None:
        self._wake = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == PATH:
            await self._stream(send)
            return
        if scope["path"] == "/hold":
            await self._wake.wait()
            self._wake.clear()
        elif scope["path"] == "/wake":
            self._wake.set()
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await send({"type": "http.response.body", "body": _BODY})

    async def _stream(self, send: Send) -> None:
        """A line now and then, for ever."""
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS[:1]})
        while True:
            await send({"type": "http.response.body", "body": _LINE, "more_body": True})
            await asyncio.sleep(SILENT_MOST * 0.95)

    def close(self) -> None:
        self._wake.set()

    async def closed(self, within: float) -> None: ...


@asynccontextmanager
async def empty() -> AsyncIterator[tuple[int, Child]]:
    """Start the server; return its port, and its process."""
    async with child("bench.empty_server", {}) as process:
        yield urlsplit((await process.line())["url"]).port or 0, process


async def main() -> None:
    told()
    logging.getLogger("uvicorn.error").disabled = True  # the end cuts its streams off
    with bind("127.0.0.1", 0) as listener:
        server = HttpServer(cast("Api", Empty()), HttpProtocol)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(15, server.stop)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        await server.wait_until_open()
        say({"url": url_of(listener)})
        await serving


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
