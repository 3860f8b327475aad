"""GitHub's REST API, politely: answers kept by their ETag, pauses honoured, one page after the other."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from muster.domain.errors import Throttled, Uncertain
from muster.domain.workflow import Scope
from muster.ports.clock import Clock
from muster.runtimes.github import wire
from muster.runtimes.github.credentials import Credentials
from muster.runtimes.github.wire import Answer

PAGE = 100
PAGES_MOST = 50
KEPT_MOST = 500
TIMEOUT = 8.0
"""Below what an agent waits for an answer that depends on ours."""
_UNCHANGED = 304


@dataclass(frozen=True, slots=True)
class _Kept:
    etag: str
    data: Any


def new_http(transport: httpx.AsyncBaseTransport | None = None) -> httpx.AsyncClient:
    """Renamed repositories answer with where they are now; httpx keeps our secret to the same host."""
    return httpx.AsyncClient(timeout=TIMEOUT, follow_redirects=True, transport=transport)


class GitHubApi:
    def __init__(
        self, http: httpx.AsyncClient, credentials: Credentials, clock: Clock, *, api_url: str
    ) -> None:
        self._http = http
        self._credentials = credentials
        self._clock = clock
        self._url = api_url.rstrip("/")
        self._kept: dict[tuple[str, str], _Kept] = {}
        self._paused_until: dict[str, float] = {}
        """By account: a limit holds for whoever's credentials are used there."""
        self.requests = 0
        """Sent so far."""
        self.unchanged = 0
        """Of these, answered from what we knew: they cost nothing of the primary limit."""

    async def close(self) -> None:
        await self._http.aclose()

    async def send(
        self, method: str, path: str, what: str, *, scope: Scope, body: Mapping[str, Any] | None = None
    ) -> Answer:
        """Whatever comes back, except for credentials that aren't accepted, limits and failures: those are
        raised. `what`: what the request is for, in words."""
        answer = await self._once(method, path, what, scope=scope, body=body)
        if answer.status == 401 and self._credentials.forget(scope):  # noqa: PLR2004 — not who it was
            answer = await self._once(method, path, what, scope=scope, body=body)
        if answer.status in (401, 403, 429) or answer.status >= 500:  # noqa: PLR2004
            raise self._noted(wire.problem(answer, what, now=self._clock.now()), scope)
        return answer

    async def get(
        self, path: str, what: str, *, scope: Scope, params: Mapping[str, str] | None = None
    ) -> Any:
        """The body of a success. Raises Refused for anything else."""
        return self.read(await self.look(path, what, scope=scope, params=params), what)

    async def look(
        self, path: str, what: str, *, scope: Scope, params: Mapping[str, str] | None = None
    ) -> Answer:
        query = f"?{httpx.QueryParams(params)}" if params else ""
        return await self.send("GET", path + query, what, scope=scope)

    def read(self, answer: Answer, what: str) -> Any:
        if not 200 <= answer.status < 300:  # noqa: PLR2004 — success
            raise wire.problem(answer, what, now=self._clock.now())
        return answer.data

    async def pages(
        self, path: str, what: str, *, scope: Scope, items: str, params: Mapping[str, str] | None = None
    ) -> list[Any]:
        found: list[Any] = []
        for page in range(1, PAGES_MOST + 1):
            asked = {**(params or {}), "per_page": str(PAGE), "page": str(page)}
            data = await self.get(path, what, scope=scope, params=asked)
            listed = data.get(items) if isinstance(data, dict) else None
            if not isinstance(listed, list):
                raise Uncertain(f"cannot {what}: GitHub's answer can't be read")
            found += listed
            if len(listed) < PAGE:
                return found
        raise Uncertain(f"cannot {what}: there are more than {PAGE * PAGES_MOST}")

    async def _once(
        self, method: str, path: str, what: str, *, scope: Scope, body: Mapping[str, Any] | None
    ) -> Answer:
        self._check_pause(what, scope)
        authorization = await self._credentials.authorization(scope)
        key = (authorization, path)
        kept = self._kept.get(key) if method == "GET" else None
        self.requests += 1
        answer = await wire.ask(
            self._http,
            method,
            self._url + path,
            authorization=authorization,
            body=body,
            etag=None if kept is None else kept.etag,
        )
        if kept is not None and answer.status == _UNCHANGED:
            self.unchanged += 1
            self._keep(key, kept)
            return Answer(status=200, data=kept.data, headers=answer.headers)
        etag = answer.headers.get("etag")
        if method == "GET" and answer.status == 200 and etag:  # noqa: PLR2004
            self._keep(key, _Kept(etag, answer.data))
        return answer

    def _keep(self, key: tuple[str, str], kept: _Kept) -> None:
        """The latest used is the last to go."""
        self._kept.pop(key, None)
        self._kept[key] = kept
        if len(self._kept) > KEPT_MOST:
            del self._kept[next(iter(self._kept))]

    def _check_pause(self, what: str, scope: Scope) -> None:
        left = self._paused_until.get(scope.owner, 0.0) - self._clock.now()
        if left > 0:
            raise Throttled(f"cannot {what}: GitHub asked for a pause, {left:.0f} s of it are left", left)

    def _noted(self, error: Exception, scope: Scope) -> Exception:
        if isinstance(error, Throttled):
            self._paused_until[scope.owner] = self._clock.now() + error.retry_after
        return error
