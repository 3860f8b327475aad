"""GitHub's REST API, politely: answers kept by their ETag, limits honoured, one page after the other."""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import httpx

from muster.domain.errors import Throttled, Uncertain
from muster.integrations.github import responses
from muster.integrations.github.credentials import Credentials
from muster.integrations.github.responses import Answer
from muster.integrations.github.runners import Scope
from muster.ports.clock import Clock

RESERVE = 0.2
"""The share of the limit that is kept for what can't wait."""
AT_ONCE = 20
"""Requests under way. GitHub takes more than a hundred for abuse, counting all users of the credential."""


class RateBudget:
    """What one credential may still ask GitHub, and the pauses that GitHub wants. All its uses share it.

    Each answer of GitHub says how much is left of the primary limit. Requests that can wait leave a reserve
    for those that can't. So the watching of runs does not delay a node that waits for its registration.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.turn = asyncio.Semaphore(AT_ONCE)
        self._paused_until = 0.0
        self._limit = 0
        self._left = 0
        self._resets_at = 0.0

    def check(self, what: str, *, patient: bool) -> None:
        """Raise Throttled if GitHub isn't to be asked now."""
        now = self._clock.now()
        if now < self._paused_until:
            left = self._paused_until - now
            raise Throttled(f"cannot {what}: GitHub asked for a pause, {left:.0f} s of it are left", left)
        least = self._limit * RESERVE if patient else 0.0
        if now < self._resets_at and self._left <= least:
            words = f"{self._left} of {self._limit} requests are left for {self._resets_at - now:.0f} s"
            raise Throttled(f"cannot {what} yet: {words}", self._resets_at - now)

    def heard(self, headers: Mapping[str, str]) -> None:
        said = [headers.get(f"x-ratelimit-{name}", "") for name in ("limit", "remaining", "reset")]
        if all(each.isdigit() for each in said):
            self._limit, self._left, self._resets_at = int(said[0]), int(said[1]), float(said[2])

    def pause(self, seconds: float) -> None:
        self._paused_until = max(self._paused_until, self._clock.now() + seconds)


PAGE = 100
PAGES_MOST = 50
KEPT_MOST = 20_000
"""Answers; each is a few hundred bytes, or a few tens of thousands for a full page."""
FIELDS = (
    *("id", "name", "status", "busy", "labels", "run_attempt", "conclusion", "allows_public_repositories"),
    *("run_id", "workflow_name", "created_at", "started_at", "completed_at", "runner_id", "runner_name"),
    *("runners", "runner_groups", "workflow_runs", "jobs"),
)
"""The fields that callers read. The rest of a body, which is most of it, isn't kept."""
PAUSE_LEAST = 1.0
"""Seconds to stay away after two answers in a row that named none."""
TIMEOUT = 8.0
"""Below what an agent waits for an answer that depends on ours."""
_UNCHANGED = 304


@dataclass(frozen=True, slots=True)
class _Kept:
    etag: str
    data: Any


def new_http(transport: httpx.AsyncBaseTransport | None = None) -> httpx.AsyncClient:
    """Return a client that follows redirects: renamed repositories answer with their new place. httpx
    keeps our secret to the same host."""
    return httpx.AsyncClient(
        timeout=TIMEOUT, follow_redirects=True, transport=transport, verify=trusted_certificates()
    )


@cache
def trusted_certificates() -> ssl.SSLContext:
    """Return the certificates that this machine trusts, read once: each time takes 20 ms of CPU."""
    return httpx.create_ssl_context()


class GitHubApi:
    def __init__(
        self, http: httpx.AsyncClient, credentials: Credentials, clock: Clock, *, api_url: str
    ) -> None:
        self._http = http
        self._credentials = credentials
        self._clock = clock
        self._url = api_url.rstrip("/")
        self._kept: dict[tuple[str, str], _Kept] = {}
        self._budgets: dict[str, RateBudget] = {}
        self.requests = 0
        """Sent so far."""
        self.unchanged = 0
        """Of these, answered from what we knew: they cost nothing of the primary limit."""

    async def close(self) -> None:
        await self._http.aclose()

    async def get(
        self,
        path: str,
        what: str,
        *,
        scope: Scope,
        params: Mapping[str, str] | None = None,
        patient: bool = False,
    ) -> Any:
        """Return the body of a success, reduced to the fields that are read. Raises Refused for anything
        else."""
        answer = await self.look(path, what, scope=scope, params=params, patient=patient)
        return self.read(answer, what)

    async def look(
        self,
        path: str,
        what: str,
        *,
        scope: Scope,
        params: Mapping[str, str] | None = None,
        patient: bool = False,
    ) -> Answer:
        query = f"?{httpx.QueryParams(params)}" if params else ""
        return await self.send("GET", path + query, what, scope=scope, patient=patient)

    def read(self, answer: Answer, what: str) -> Any:
        if not 200 <= answer.status < 300:  # noqa: PLR2004 — success
            raise responses.problem(answer, what, now=self._clock.now())
        return answer.data

    async def pages(
        self,
        path: str,
        what: str,
        *,
        scope: Scope,
        items: str,
        params: Mapping[str, str] | None = None,
        patient: bool = False,
        most: int | None = None,
    ) -> list[Any]:
        """Yield all pages, or the first `most` of them."""
        found: list[Any] = []
        page = 0
        while most is None or page < most:
            page += 1
            asked = {**(params or {}), "per_page": str(PAGE), "page": str(page)}
            data = await self.get(path, what, scope=scope, params=asked, patient=patient)
            listed = data.get(items) if isinstance(data, dict) else None
            if not isinstance(listed, list):
                raise responses.unreadable(what)
            found += listed
            if most is None and len(found) > PAGE * PAGES_MOST:
                raise Uncertain(f"cannot {what}: there are more than {PAGE * PAGES_MOST}")
            if len(listed) < PAGE:
                break
        return found

    async def send(
        self,
        method: str,
        path: str,
        what: str,
        *,
        scope: Scope,
        body: Mapping[str, Any] | None = None,
        patient: bool = False,
    ) -> Answer:
        """Send a request and return its answer; raise refused credentials, limits and failures.

        `what`: the purpose, in words. `patient`: the request can wait, and does where little is left of the
        limit.
        """
        budget = self._budgets.setdefault(self._credentials.purse(scope), RateBudget(self._clock))
        async with budget.turn:
            budget.check(what, patient=patient)
            try:
                return await self._answered(method, path, what, scope=scope, body=body, budget=budget)
            except Throttled as error:
                if error.retry_after > 0.0:
                    budget.pause(error.retry_after)
                    raise
            # "Retry-After: 0" asks for a repeat at once. The second in a row is a limit without a time.
            try:
                return await self._answered(method, path, what, scope=scope, body=body, budget=budget)
            except Throttled as error:
                error.retry_after = max(error.retry_after, PAUSE_LEAST)
                budget.pause(error.retry_after)
                raise

    async def _answered(
        self,
        method: str,
        path: str,
        what: str,
        *,
        scope: Scope,
        body: Mapping[str, Any] | None,
        budget: RateBudget,
    ) -> Answer:
        answer = await self._once(method, path, scope=scope, body=body)
        if answer.status == 401 and self._credentials.forget(scope):  # noqa: PLR2004 — not who it was
            answer = await self._once(method, path, scope=scope, body=body)
        budget.heard(answer.headers)
        if answer.status in (401, 403, 429) or answer.status >= 500:  # noqa: PLR2004
            raise responses.problem(answer, what, now=self._clock.now())
        return answer

    async def _once(self, method: str, path: str, *, scope: Scope, body: Mapping[str, Any] | None) -> Answer:
        authorization = await self._credentials.authorization(scope)
        key = (authorization, path)
        kept = self._kept.get(key) if method == "GET" else None
        self.requests += 1
        answer = await responses.ask(
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
        if method == "GET" and answer.status == 200:  # noqa: PLR2004
            answer = replace(answer, data=_read_of(answer.data))
            if etag:
                self._keep(key, _Kept(etag, answer.data))
        return answer

    def _keep(self, key: tuple[str, str], kept: _Kept) -> None:
        """Keep an answer; the least recently used goes first."""
        self._kept.pop(key, None)
        self._kept[key] = kept
        if len(self._kept) > KEPT_MOST:
            del self._kept[next(iter(self._kept))]


def _read_of(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _read_of(data[name]) for name in FIELDS if name in data}
    return [_read_of(each) for each in data] if isinstance(data, list) else data
