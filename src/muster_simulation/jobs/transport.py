"""How one replica reaches the simulated GitHub: the transport of its HTTP client."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import httpx

from muster_simulation.github.exchange import Said
from muster_simulation.life import Life, current_life, outside

PATIENCE = 60.0
"""Seconds that a caller waits who says nothing about it."""


class Receiver(Protocol):
    def send(self, request: "Request", reply: "asyncio.Future[Said]") -> None:
        """Take a request on its way. The reply may never come."""
        ...


class Request:
    def __init__(self, owner: str, sender: Life | None, request: httpx.Request, body: bytes) -> None:
        self.owner = owner
        self.method = request.method
        self.path = request.url.path
        self.target = request.url.raw_path.decode()
        self.query = request.url.query
        self.headers = {name.lower(): value for name, value in request.headers.items()}
        self.body = body
        self._sender = sender

    @property
    def connected(self) -> bool:
        """Return whether the caller's process still lives: else its connection broke."""
        return self._sender is None or self._sender.alive


class ReplicaTransport(httpx.AsyncBaseTransport):
    def __init__(self, github: Receiver, owner: str, blow: Callable[[str], Awaitable[None]]) -> None:
        self._github = github
        self._owner = owner
        self._blow = blow

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await self._blow(self._owner)
        asked = Request(self._owner, current_life(), request, await request.aread())
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[Said] = loop.create_future()
        patience = request.extensions.get("timeout", {}).get("read") or PATIENCE
        expiry = outside(loop.call_later, patience, _give_up, reply)
        self._github.send(asked, reply)
        try:
            said = await reply
        finally:
            expiry.cancel()
        await self._blow(self._owner)
        return httpx.Response(said.status, headers=dict(said.headers), content=said.body)


def _give_up(reply: "asyncio.Future[Said]") -> None:
    if not reply.done():
        reply.set_exception(httpx.ReadTimeout("no answer in time"))
        reply.exception()  # the caller may have died: the error has no other reader
