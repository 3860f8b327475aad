"""Requests to GitHub's Actions service, which keeps scale sets: tokens, limits and errors.

A registration token of the REST API is changed into an admin token and the address of the service. One
request renews a token that ended; requests that meet the same end share it. No message holds a token or a
body of the service.
"""

import asyncio
import base64
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

import httpx
import msgspec

from muster.domain.errors import ProviderError, Refused, Throttled, Uncertain
from muster.domain.reasons import Reason
from muster.integrations.github.registry import GitHubRegistry
from muster.integrations.github.responses import PAUSE, PAUSE_MOST, unreadable
from muster.integrations.github.runners import Scope
from muster.integrations.github.scale_set_shapes import Problem, decoded
from muster.ports.clock import Clock

logger = logging.getLogger(__name__)

VERSION = "6.0-preview"
AGENT = "muster"
EARLY = 60.0
"""Seconds before its end at which an admin token is renewed."""
UNREADABLE_LIFE = 600.0
"""Seconds for which an admin token is used that does not say when it ends. Some ended after 17 minutes."""
TIMEOUT = 15.0
WORDS_MOST = 300
_UNAUTHORIZED, _LIMITED, _FAILING = 401, 429, 500
_GONE = (404, 410)


class SetMissing(Uncertain):
    """There is no such scale set (any more): make it again."""


class SetExists(Uncertain):
    """The group has a scale set of that name: look it up."""


class SessionTaken(Uncertain):
    """Another listener holds the set's one session: wait until it closes or ends."""


class SessionMissing(Uncertain):
    """The session ended: open another one."""


class RunnerExists(Uncertain):
    """A runner of that name is registered: remove it first."""


class RunnerMissing(Uncertain):
    """No such runner is registered."""


class RunnerBusy(Uncertain):
    """The runner has a job: leave it alone."""


class Gone(Refused):
    """What the address names does not exist (any more); GitHub names no exception for it."""


class TokenEnded(Uncertain):
    """The token that was sent ended, or never was one."""


_ERRORS: tuple[tuple[str, type[Uncertain]], ...] = (
    ("RunnerScaleSetExistsException", SetExists),
    ("RunnerScaleSetNotFoundException", SetMissing),
    ("RunnerScaleSetSessionConflictException", SessionTaken),
    ("RunnerScaleSetSessionExpiredException", SessionMissing),
    ("RunnerAdminException", SessionMissing),
    ("AgentExistsException", RunnerExists),
    ("AgentNotFoundException", RunnerMissing),
    ("JobStillRunningException", RunnerBusy),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    status: int
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Admin:
    url: str
    token: str = field(repr=False)
    until: float


class _Registration(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    token: str


class ActionsService:
    def __init__(
        self, http: httpx.AsyncClient, registry: GitHubRegistry, clock: Clock, *, api_url: str, web_url: str
    ) -> None:
        self._http = http
        self._registry = registry
        self._clock = clock
        self._api_url = api_url.rstrip("/")
        self._web_url = web_url.rstrip("/")
        self._admins: dict[Scope, _Admin] = {}
        self._turns: dict[Scope, asyncio.Lock] = {}

    async def call(
        self,
        method: str,
        path: str,
        what: str,
        *,
        scope: Scope,
        query: Mapping[str, str] | None = None,
        body: object = None,
    ) -> Reply:
        """Send a request about a scope as its admin. Raises ProviderError for anything but a success."""
        admin = await self._admin(scope)
        try:
            return await self._as_admin(admin, method, path, what, query=query, body=body)
        except TokenEnded:
            self._drop(scope, admin)
        admin = await self._admin(scope)
        try:
            return await self._as_admin(admin, method, path, what, query=query, body=body)
        except TokenEnded as error:
            self._drop(scope, admin)
            words = f"cannot {what}: GitHub refuses a fresh token of {scope}; check the credentials' rights"
            raise Refused(words, Reason.PROVIDER_REFUSED) from error

    async def service_url(self, scope: Scope) -> str:
        return (await self._admin(scope)).url

    async def send(
        self,
        method: str,
        url: httpx.URL,
        what: str,
        *,
        token: str,
        headers: Mapping[str, str] | None = None,
        body: object = None,
        timeout: float = TIMEOUT,
    ) -> Reply:
        """Send a request with a token. Raises TokenEnded for 401, and ProviderError for other refusals."""
        sent = {"Authorization": f"Bearer {token}", "User-Agent": AGENT, **(headers or {})}
        return await self._send(method, url, what, headers=sent, body=body, timeout=timeout)

    # --- the admin token --------------------------------------------------------------------------

    async def _as_admin(
        self,
        admin: _Admin,
        method: str,
        path: str,
        what: str,
        *,
        query: Mapping[str, str] | None,
        body: object,
    ) -> Reply:
        url = httpx.URL(admin.url + path).copy_merge_params({**(query or {}), "api-version": VERSION})
        return await self.send(method, url, what, token=admin.token, body=body)

    def _drop(self, scope: Scope, refused: _Admin) -> None:
        """Forget a refused token, unless another request renewed it already."""
        if self._admins.get(scope) is refused:
            del self._admins[scope]

    async def _admin(self, scope: Scope) -> _Admin:
        async with self._turns.setdefault(scope, asyncio.Lock()):  # many may ask at once; one renews
            known = self._admins.get(scope)
            if known is None or self._clock.now() >= known.until - EARLY:
                known = self._admins[scope] = await self._register(scope)
            return known

    async def _register(self, scope: Scope) -> _Admin:
        what = f"sign in to the Actions service for {scope}"
        token = await self._registry.registration_token(scope)
        url = httpx.URL(f"{self._api_url}/actions/runner-registration")
        body = {"url": f"{self._web_url}/{scope}", "runner_event": "register"}
        headers = {"Authorization": f"RemoteAuth {token}", "User-Agent": AGENT}
        try:
            reply = await self._send("POST", url, what, headers=headers, body=body, timeout=TIMEOUT)
        except (TokenEnded, Refused) as error:
            # Both pass by themselves at times: a fresh registration token is not known everywhere at once.
            raise Uncertain(f"cannot {what}: GitHub does not accept its own registration token") from error
        try:
            found: _Registration = decoded(reply.content, _Registration)
        except ValueError as error:
            raise unreadable(what) from error
        if not found.url.startswith(("https://", "http://")) or not found.token:
            raise unreadable(what)
        until = _end_of(found.token) or self._clock.now() + UNREADABLE_LIFE
        return _Admin(url=found.url.rstrip("/"), token=found.token, until=until)

    # --- one request ------------------------------------------------------------------------------

    async def _send(
        self,
        method: str,
        url: httpx.URL,
        what: str,
        *,
        headers: Mapping[str, str],
        body: object,
        timeout: float,
    ) -> Reply:
        try:
            answer = await self._http.request(
                method, url, headers=dict(headers), json=body, timeout=timeout, follow_redirects=False
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Uncertain(f"cannot {what}: no answer of GitHub ({type(error).__name__})") from error
        if answer.is_success:
            return Reply(status=answer.status_code, content=answer.content)
        raise _problem(answer, what)


def _problem(answer: httpx.Response, what: str) -> ProviderError:
    """Return the error for an answer that is no success, by the exception that GitHub names."""
    try:
        said: Problem = decoded(answer.content, Problem)
    except ValueError:
        said = Problem()
    words = " ".join(said.message.split())[:WORDS_MOST] or "no words"
    status, trace = answer.status_code, answer.headers.get("activityid", "")
    logger.debug("the Actions service refused", extra={"reason": words, "activity": trace})
    for name, kind in _ERRORS:
        if name in said.type_name:
            return kind(f"cannot {what}: {words}")
    if status == _UNAUTHORIZED:
        return TokenEnded(f"cannot {what}: the token ended")
    after = answer.headers.get("retry-after", "")
    if status == _LIMITED:
        pause = float(after) if after.isdigit() else PAUSE
        return Throttled(
            f"cannot {what}: GitHub limits the rate of requests ({words})", min(pause, PAUSE_MOST)
        )
    if status >= _FAILING:
        return Uncertain(f"cannot {what}: GitHub fails with {status} ({words})")
    refusal = Gone if status in _GONE else Refused
    return refusal(f"cannot {what}: GitHub refuses with {status} ({words})", Reason.PROVIDER_REFUSED)


class _Claims(msgspec.Struct, frozen=True, kw_only=True):
    exp: float | None = None


def _end_of(token: str) -> float | None:
    """Return when a JWT ends, as it says itself. It is GitHub's own: nothing is verified."""
    parts = token.split(".")
    if len(parts) != 3:  # noqa: PLR2004 — header, claims, signature
        return None
    try:
        claims = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return msgspec.json.decode(claims, type=_Claims).exp
    except ValueError:
        return None
