"""The small GitHub without a network: what a client of httpx asks is answered by the world itself."""

import httpx

from fakes.github.faults import Lost
from fakes.github.issuer import Issuer
from fakes.github.routes import answer
from fakes.github.state import GitHubState


class WorldTransport(httpx.AsyncBaseTransport):
    def __init__(self, world: GitHubState, issuer: Issuer | None = None) -> None:
        self._world = world
        self._issuer = issuer

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        target = request.url.raw_path.decode()
        if self._issuer is not None:
            found = self._issuer.answer(target, request.headers.get("authorization", ""))
            if found is not None:
                return httpx.Response(200, json=found)
        headers = {name.lower(): value for name, value in request.headers.items()}
        try:
            said = answer(self._world, request.method, target, headers, await request.aread())
        except Lost as error:
            raise httpx.ReadError("the connection broke") from error
        return httpx.Response(said.status, headers=dict(said.headers), content=said.body)
