"""Ask an identity provider what it is: its discovery document and its keys.

The document is kept for an hour, and an old one goes on while the provider is down. Keys are read again when
a token names an unknown one, so a change of keys needs no restart. Only answers of the provider's own token
endpoint are checked, so forged tokens cause no reads.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from muster.config.values import LOOPBACK
from muster.domain.errors import NotYet
from muster.ports.clock import Clock

KEPT = 3600.0
TIMEOUT = 10.0
RETRY = 5.0
PATH = "/.well-known/openid-configuration"
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """The parts of a discovery document that a sign-in needs."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None
    methods: tuple[str, ...]
    """How a client may prove itself at the token endpoint."""
    names_issuer: bool
    """Whether each answer names the issuer (RFC 9207)."""


class Unusable(ValueError):
    """The document is not what it must be. The message says why."""


def new_http(transport: httpx.AsyncBaseTransport | None = None) -> httpx.AsyncClient:
    """Return a client that follows no redirect: each address is in the document."""
    return httpx.AsyncClient(timeout=TIMEOUT, follow_redirects=False, transport=transport)


class Discovery:
    def __init__(self, http: httpx.AsyncClient, clock: Clock, *, issuer: str) -> None:
        self.issuer = issuer
        self._http = http
        self._clock = clock
        self._metadata: Metadata | None = None
        self._read_at = float("-inf")
        self._keys: KeySet | None = None

    async def metadata(self) -> Metadata:
        """Return what the provider says of itself. Raises NotYet."""
        now = self._clock.now()
        if self._metadata is not None and now - self._read_at < KEPT:
            return self._metadata
        try:
            said = await self._fetch(self.issuer.rstrip("/") + PATH)
            self._metadata, self._read_at = read_metadata(said, issuer=self.issuer), now
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            if self._metadata is None:
                raise self.unavailable(error) from error
        return self._metadata

    async def keys(self, *, anew: bool = False) -> KeySet:
        """Return the provider's keys. Raises NotYet. `anew`: a token named one that is not among them."""
        if self._keys is None or anew:
            try:
                found = await self._fetch((await self.metadata()).jwks_uri)
                self._keys = KeySet.import_key_set(found)  # type: ignore[arg-type]  # checked by the library
            except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError, JoseError) as error:
                raise self.unavailable(error) from error
        return self._keys

    def unavailable(self, error: Exception) -> NotYet:
        words = f"the identity provider {self.issuer} is not available ({why(error)})"
        return NotYet(f"cannot sign in: {words}; try again, or use a token", RETRY)

    async def _fetch(self, url: str) -> Mapping[str, Any]:
        answer = await self._http.get(url, headers={"Accept": "application/json"})
        if answer.status_code != httpx.codes.OK:
            raise Unusable(f"{url} answers {answer.status_code}")
        said = answer.json()
        if not isinstance(said, Mapping):
            raise Unusable(f"{url} is no JSON object")
        return said


def read_metadata(said: Mapping[str, Any], *, issuer: str) -> Metadata:
    """Read a discovery document. Raises Unusable."""
    if said.get("issuer") != issuer:
        raise Unusable(f"its document is that of the issuer {str(said.get('issuer'))[:200]!r}")
    for name in _ENDPOINTS:
        if not _safe(said.get(name)):
            raise Unusable(f"its document has no https address as {name}")
    userinfo = said.get("userinfo_endpoint")
    return Metadata(
        authorization_endpoint=str(said["authorization_endpoint"]),
        token_endpoint=str(said["token_endpoint"]),
        jwks_uri=str(said["jwks_uri"]),
        userinfo_endpoint=str(userinfo) if _safe(userinfo) else None,
        methods=tuple(
            map(str, said.get("token_endpoint_auth_methods_supported") or ("client_secret_basic",))
        ),
        names_issuer=said.get("authorization_response_iss_parameter_supported") is True,
    )


def _safe(address: object) -> bool:
    if not isinstance(address, str):
        return False
    parts = urlsplit(address)
    return bool(parts.hostname) and (parts.scheme == "https" or parts.hostname in LOOPBACK)


def why(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
