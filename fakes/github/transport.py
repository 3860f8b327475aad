"""The small GitHub without a network: what a client of httpx asks is answered by the world itself."""

from collections.abc import Awaitable, Callable

import httpx

from fakes.github.issuer import Issuer
from muster_simulation.github.exchange import Lost
from muster_simulation.github.routes import answer
from muster_simulation.github.state import GitHubState


class WorldTransport(httpx.AsyncBaseTransport):
    """`sleep` and `window`: how polls of scale sets wait for a message, and for how many seconds."""

    def __init__(
        self,
        world: GitHubState,
        issuer: Issuer | None = None,
        *,
        sleep: Callable[[float], Awaitable[None]] | None = None,
        window: float = 50.0,
    ) -> None:
        self._world = world
        self._issuer = issuer
        self._sleep = sleep
        self._window = window
        self.watch: Callable[[str, bool], Awaitable[None]] | None = None
        """Is told of every request as `METHOD path`: before it happens, and when it happened (True)."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        target = request.url.raw_path.decode()
        if self._issuer is not None:
            found = self._issuer.answer(target, request.headers.get("authorization", ""))
            if found is not None:
                return httpx.Response(200, json=found)
        headers = {name.lower(): value for name, value in request.headers.items()}
        body = await request.aread()
        if self.watch is not None:
            await self.watch(f"{request.method} {request.url.path}", False)
        try:
            said = answer(self._world, request.method, target, headers, body)
            until = self._world.now() + self._window
            while said.status == HELD and self._sleep is not None and self._world.now() < until:
                await self._sleep(LOOK_EVERY)
                if self._world.sets.has_news(int(request.url.path.rpartition("/")[2]), request.url.query):
                    said = answer(self._world, request.method, target, headers, body)
                    break
        except Lost as error:
            raise httpx.ReadError("the connection broke") from error
        if self.watch is not None:
            await self.watch(f"{request.method} {request.url.path}", True)
        return httpx.Response(said.status, headers=dict(said.headers), content=said.body)


HELD = 202
"""A poll without a message: only polls of scale sets are answered so."""
LOOK_EVERY = 0.25
