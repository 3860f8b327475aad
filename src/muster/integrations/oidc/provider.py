"""Sign people in by OpenID Connect: authorization code with PKCE, then the ID token, then the rules."""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import httpx

from muster.domain.access import Claims, Role
from muster.domain.errors import Unproven
from muster.integrations.oidc.discovery import Discovery, Metadata, why
from muster.integrations.oidc.id_tokens import IdTokens
from muster.integrations.oidc.roles import claims_of, name_of, role_of
from muster.integrations.oidc.tables import OidcConfig
from muster.ports.clock import Clock
from muster.ports.sign_in import Challenge, Lifetimes, Person, Uncovered

CALLBACK = "/api/v1/sign-in/callback"
_BASIC, _POST = "client_secret_basic", "client_secret_post"
_GROUPS_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """What the provider knows this server by."""

    id: str
    secret: str = field(default="", repr=False)
    """Empty: a public client, which proves itself by PKCE alone."""

    def proof(self, methods: tuple[str, ...]) -> tuple[dict[str, str], dict[str, str]]:
        """Return the headers and the form fields that prove the client at the token endpoint."""
        if not self.secret:
            return {}, {"client_id": self.id}
        if _BASIC not in methods and _POST in methods:
            return {}, {"client_id": self.id, "client_secret": self.secret}
        pair = f"{quote(self.id, safe='')}:{quote(self.secret, safe='')}"
        return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}, {}


class OidcProvider:
    """Implements muster.ports.sign_in.SignInProvider."""

    def __init__(
        self, http: httpx.AsyncClient, clock: Clock, config: OidcConfig, *, home: str, secret: str = ""
    ) -> None:
        self.name = config.shown_name
        self.home = home
        self.lifetimes: Lifetimes = config.lifetimes
        self._http = http
        self._clock = clock
        self._config = config
        self._client = Client(id=config.client_id, secret=secret)
        self._discovery = Discovery(http, clock, issuer=config.issuer)
        self._id_tokens = IdTokens(self._discovery, client_id=config.client_id)

    async def close(self) -> None:
        await self._http.aclose()

    @property
    def redirect_uri(self) -> str:
        return self.home + CALLBACK

    async def address(self, challenge: Challenge) -> str:
        metadata = await self._discovery.metadata()
        digest = hashlib.sha256(challenge.verifier.encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": self._client.id,
            "redirect_uri": self.redirect_uri,
            "scope": " ".join(self._config.scopes),
            "state": challenge.state,
            "nonce": challenge.nonce,
            "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        endpoint = metadata.authorization_endpoint
        return f"{endpoint}{'&' if urlsplit(endpoint).query else '?'}{urlencode(asked)}"

    async def person(self, code: str, challenge: Challenge, *, issuer: str | None) -> Person:
        metadata = await self._discovery.metadata()
        if issuer != self._discovery.issuer and (issuer is not None or metadata.names_issuer):
            raise Unproven("cannot sign in: the answer is of another identity provider; sign in again")
        tokens = await self._exchanged(metadata, code, challenge)
        proven = await self._id_tokens.verified(
            tokens.get("id_token"), nonce=challenge.nonce, now=self._clock.now()
        )
        said = {**await self._userinfo(metadata, tokens.get("access_token"), proven), **proven}
        claims = claims_of(said, groups_claim=self._config.groups_claim)
        name, role = name_of(said, claims), self.role(claims)
        if role is None:
            raise Uncovered(name, f"cannot sign in {name}: {_uncovered(claims, self._config)}")
        return Person(name=name, role=role, claims=claims)

    def role(self, claims: Claims) -> Role | None:
        return role_of(self._config.roles, claims)

    async def _exchanged(self, metadata: Metadata, code: str, challenge: Challenge) -> Mapping[str, Any]:
        headers, fields = self._client.proof(metadata.methods)
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_uri,
            "code_verifier": challenge.verifier,
            **fields,
        }
        try:
            answer = await self._http.post(
                metadata.token_endpoint, data=form, headers={**headers, "Accept": "application/json"}
            )
            said = answer.json()
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise self._discovery.unavailable(error) from error
        if answer.is_server_error:
            raise self._discovery.unavailable(ValueError(f"it answers {answer.status_code}"))
        if not answer.is_success or not isinstance(said, Mapping):
            raise Unproven(f"cannot sign in: the identity provider refused the code ({_refusal(said)})")
        return said

    async def _userinfo(
        self, metadata: Metadata, access_token: object, claims: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return what the provider tells beside the ID token. It counts only for the same subject."""
        if metadata.userinfo_endpoint is None or not isinstance(access_token, str):
            return {}
        try:
            headers = {"Authorization": f"Bearer {access_token}", "Accept": "application/json"}
            answer = await self._http.get(metadata.userinfo_endpoint, headers=headers)
            said = answer.json() if answer.is_success else {}
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise self._discovery.unavailable(error) from error
        same = isinstance(said, Mapping) and said.get("sub") == claims["sub"]
        return said if same else {}


def _uncovered(claims: Claims, config: OidcConfig) -> str:
    shown = ", ".join(sorted(claims.groups)[:_GROUPS_SHOWN]) or "none"
    more = f" and {len(claims.groups) - _GROUPS_SHOWN} more" if len(claims.groups) > _GROUPS_SHOWN else ""
    where = f"the claim {config.groups_claim!r} has the groups: {shown}{more}"
    return f"no rule of [oidc.roles] covers this person; {where}. Ask an admin of Muster"


def _refusal(said: object) -> str:
    if not isinstance(said, Mapping):
        return "its answer can't be read"
    words = [str(said[key]) for key in ("error", "error_description") if key in said]
    return why(ValueError(": ".join(words) or "it gives no reason"))
