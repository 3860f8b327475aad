"""Speak to GitHub with a personal access token, or as a GitHub App.

An app signs its identity, finds its installation, and gets a token there for an hour. The token is kept until
shortly before its end. No message, event or log holds a secret.
"""

import asyncio
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

import httpx

from muster.domain.errors import InvalidRequest, Refused
from muster.domain.reasons import Reason
from muster.integrations.github import responses
from muster.integrations.github.runners import Scope
from muster.ports.clock import Clock

EARLY = 300.0
"""A token is renewed this long before it ends, so that none ends on its way."""
BACKDATED = 60.0
LASTS = 540.0
"""A signature may last ten minutes at most, by a clock that may differ from ours."""


class Credentials(Protocol):
    async def authorization(self, scope: Scope) -> str:
        """Return the header's value for requests about a scope. Raises as the ports of this adapter do."""
        ...

    def forget(self, scope: Scope) -> bool:
        """Drop what was refused for the scope; return whether asking again may help."""
        ...

    def purse(self, scope: Scope) -> str:
        """Name the limit that requests about the scope count against."""
        ...


@dataclass(frozen=True, slots=True)
class PersonalToken:
    token: str = field(repr=False)

    async def authorization(self, scope: Scope) -> str:
        return f"Bearer {self.token}"

    def forget(self, scope: Scope) -> bool:
        return False

    def purse(self, scope: Scope) -> str:
        return ""  # its user's, wherever it is used


@dataclass(frozen=True, slots=True)
class _Lent:
    token: str = field(repr=False)
    until: float


class AppCredentials:
    def __init__(
        self, http: httpx.AsyncClient, clock: Clock, *, api_url: str, app_id: str, private_key: str
    ) -> None:
        """Load the key. Raises InvalidRequest for a key that can't sign."""
        self._http = http
        self._clock = clock
        self._url = api_url
        self._app_id = app_id
        self._key = _signing_key(private_key)
        self._installations: dict[Scope, int] = {}
        self._lent: dict[int, _Lent] = {}
        self._turn = asyncio.Lock()

    async def authorization(self, scope: Scope) -> str:
        async with self._turn:  # many may ask at once; one renews
            known = scope in self._installations
            try:
                lent = await self._good(scope)
            except Refused:
                self._installations.pop(scope, None)
                if not known:
                    raise
                lent = await self._good(scope)  # an app that was installed anew has another number
            return f"Bearer {lent.token}"

    async def _good(self, scope: Scope) -> _Lent:
        installation = self._installations.get(scope)
        if installation is None:
            installation = self._installations[scope] = await self._find(scope)
        lent = self._lent.get(installation)
        if lent is None or self._clock.now() >= lent.until - EARLY:
            lent = self._lent[installation] = await self._borrow(installation, scope)
        return lent

    def forget(self, scope: Scope) -> bool:
        installation = self._installations.pop(scope, None)
        return installation is not None and self._lent.pop(installation, None) is not None

    def purse(self, scope: Scope) -> str:
        return scope.owner.lower()  # an app is installed once for an account, and limited there

    async def _find(self, scope: Scope) -> int:
        if scope.enterprise:
            words = f"cannot register runners of {scope} as a GitHub App: GitHub wants a classic token there"
            raise Refused(f"{words}, with manage_runners:enterprise", Reason.PROVIDER_REFUSED)
        what = f"find where the GitHub App {self._app_id} is installed for {scope}"
        data = await self._signed("GET", f"{self._url}{scope.api_path}/installation", what, expected=200)
        try:
            return int(data["id"])
        except (KeyError, TypeError, ValueError) as error:
            raise responses.unreadable(what) from error

    async def _borrow(self, installation: int, scope: Scope) -> _Lent:
        url = f"{self._url}/app/installations/{installation}/access_tokens"
        what = f"get a token for {scope}"
        data = await self._signed("POST", url, what, expected=201)
        try:
            token, until = data["token"], datetime.fromisoformat(data["expires_at"]).timestamp()
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise responses.unreadable(what) from error
        if not isinstance(token, str) or not token:
            raise responses.unreadable(what)
        return _Lent(token, until)

    async def _signed(self, method: str, url: str, what: str, *, expected: int) -> Any:
        answer = await responses.ask(self._http, method, url, authorization=f"Bearer {self._signature()}")
        if answer.status != expected:
            raise responses.problem(answer, what, now=self._clock.now())
        if not isinstance(answer.data, dict):
            raise responses.unreadable(what)
        return answer.data

    def _signature(self) -> str:
        jwt = signing()
        now = int(self._clock.now())
        claims = {"iat": now - int(BACKDATED), "exp": now + int(LASTS), "iss": self._app_id}
        return str(jwt.encode(claims, self._key, algorithm="RS256"))


def signing() -> Any:
    try:
        import jwt  # noqa: PLC0415 — only an app, or OIDC, needs it
        import jwt.algorithms  # noqa: PLC0415
    except ImportError as error:
        raise InvalidRequest("github", "a GitHub App, or OIDC", MISSING) from error
    if not jwt.algorithms.has_crypto:
        raise InvalidRequest("github", "a GitHub App, or OIDC", MISSING)
    return jwt


MISSING = "needs a package that is not installed: pip install 'muster-compute[github]'"


def _signing_key(pem: str) -> Any:
    algorithms = signing().algorithms
    rule = "must be the private key of a GitHub App: PEM, RSA, not encrypted"
    try:
        return algorithms.RSAAlgorithm(algorithms.RSAAlgorithm.SHA256).prepare_key(pem.strip() + "\n")
    except Exception as error:
        # Never shown: it is a secret, or was meant to be one.
        raise InvalidRequest("private_key_file", "…", rule) from error
