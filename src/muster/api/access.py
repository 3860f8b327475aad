"""Identify the caller of a request: people and programs by API token, nodes by their own token.

A person on the page may show a session in a cookie in place of a token. `cookies` owns the check that the
page itself sent the request. This module owns the reading of `Authorization`. Secrets are compared by hash,
never logged, never shown again. An unknown token and a missing one get the same answer. The holder of an
expired or revoked token is told so.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import count

from muster.api.problems import Unauthenticated
from muster.domain.access import ApiToken, Claims, Role, TokenKind, hashed, may
from muster.domain.errors import Conflict, Forbidden, NotYet, Unproven
from muster.domain.ids import NodeId
from muster.enrolment.signals import Enrolment
from muster.ports.access import AccessStore
from muster.ports.clock import Clock
from muster.ports.identity import Confinement, Federation
from muster.ports.ids import Ids
from muster.ports.sign_in import SignInProvider
from muster.ports.store import NodeView

SECRET_PREFIX = "muster_"  # noqa: S105 — lets scanners of leaked secrets know what they found
_LONGEST = 16_384
"""Ours are short; what GitHub signs for a job takes a few thousand characters."""
LOOK_AGAIN = 5.0
"""Seconds for which a stream takes it that its token is still good."""
NOTED_EVERY = 60.0
"""Seconds between two notes of a session's use."""
NO_SESSION = "cannot go on: this browser has no valid session; sign in again"
NO_TOKEN = "the request has no valid token: send a valid token as 'Authorization: Bearer …'"  # noqa: S105
_UNCOVERED = "cannot go on: no rule of [oidc.roles] covers you now; ask an admin of Muster, and sign in again"
_UNNAMED = "cannot go on: you signed in before Muster kept groups and addresses; sign in again"


class Access(StrEnum):
    """Who may use a route."""

    PUBLIC = "public"
    NODE = "node"
    ENROL = "enrol"
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    @property
    def role(self) -> Role | None:
        return Role(self.value) if self.value in tuple(Role) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What a request shows. The header counts, if both are there."""

    authorization: str | None = field(default=None, repr=False)
    session: str | None = field(default=None, repr=False)
    """The secret in the page's cookie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    token: ApiToken
    confinement: Confinement | None = None
    """Of a workflow that signed in by itself."""


class Authenticator:
    def __init__(
        self,
        tokens: AccessStore,
        enrolment: Enrolment,
        clock: Clock,
        *,
        federation: Federation | None = None,
        sign_in: SignInProvider | None = None,
    ) -> None:
        self._tokens = tokens
        self._enrolment = enrolment
        self._clock = clock
        self._federation = federation
        self._sign_in = sign_in

    async def caller(self, shown: Credentials, needed: Role) -> Caller:
        """Return the caller who shows this. Raises Unauthenticated, or Forbidden with the role that is
        needed."""
        caller = await self._shown(shown)
        await self._used(caller.token)
        if not may(caller.token.role, needed):
            raise Forbidden(f"cannot do this as {caller.token.role}: it needs the role {needed}")
        return caller

    async def _shown(self, shown: Credentials) -> Caller:
        if shown.authorization is None and shown.session is not None:
            return Caller(token=await self._known(shown.session, session=True))
        secret = bearer(shown.authorization)
        if self._federation is not None and self._federation.recognises(secret):
            return await self._workflow(self._federation, secret)
        return Caller(token=await self._known(secret, session=False))

    async def _known(self, secret: str, *, session: bool) -> ApiToken:
        """Return the token of a secret. A session counts in a cookie alone, and a token in the header."""
        token = await self._tokens.token_for(hashed(secret))
        if token is None or session is not (token.kind is TokenKind.SESSION):
            raise Unauthenticated(NO_SESSION if session else NO_TOKEN)
        now = self._clock.now()
        if not token.valid(now=now):
            raise Unauthenticated(_ended(token, now=now))
        role = self.role(token)
        if role is None:
            raise Unauthenticated(_UNNAMED if token.claims is None else _UNCOVERED)
        return replace(token, role=role)

    def role(self, token: ApiToken) -> Role | None:
        """Return what the holder of a token may do now. Rules decide for people who signed in, so a changed
        rule counts for them at once."""
        if token.kind is TokenKind.TOKEN:
            return token.role
        if self._sign_in is None or token.claims is None:
            return None
        return self._sign_in.role(token.claims)

    async def _used(self, token: ApiToken) -> None:
        """Note the use of a session, now and then, so that idleness doesn't end it."""
        now = self._clock.now()
        if token.idle_timeout is not None and now - (token.seen_at or 0.0) >= NOTED_EVERY:
            await self._tokens.touch_token(token.id, now=now)

    async def session_holds(self, secret: str | None) -> bool:
        """Return whether a cookie's secret is that of a valid session."""
        return secret is not None and await self.still(Credentials(session=secret))

    async def _workflow(self, federation: Federation, signed: str) -> Caller:
        try:
            held = await federation.admit(signed)
        except Unproven as error:
            raise Unauthenticated(str(error)) from error
        token = ApiToken(
            id=f"workflow:{held.owner}", name=held.name, role=held.role, created_at=self._clock.now()
        )
        return Caller(token=token, confinement=held)

    async def still(self, shown: Credentials) -> bool:
        """Return whether a caller would still be admitted: the token is valid, and a rule covers a
        workflow's."""
        try:
            await self._shown(shown)
        except (Unauthenticated, Forbidden, NotYet):
            return False
        return True

    async def node(self, authorization: str | None) -> NodeId:
        try:
            return await self._enrolment.identify(bearer(authorization))
        except Forbidden as error:
            raise Unauthenticated(str(error)) from error

    async def speaker(self, authorization: str | None) -> NodeView:
        try:
            return await self._enrolment.recognise(bearer(authorization))
        except Forbidden as error:
            raise Unauthenticated(str(error)) from error


class Permit:
    """The right of a stream to go on: a token that ends while it is read ends it, soon."""

    def __init__(self, gate: Authenticator, shown: Credentials, clock: Clock) -> None:
        self._gate = gate
        self._shown = shown
        self._clock = clock
        self._looked_at = clock.now()

    async def holds(self) -> bool:
        now = self._clock.now()
        if now - self._looked_at < LOOK_AGAIN:
            return True
        self._looked_at = now
        return await self._gate.still(self._shown)


def _ended(token: ApiToken, *, now: float) -> str:
    """Say why a token no longer counts, and what its holder does next."""
    if token.kind is TokenKind.TOKEN:
        how = "was revoked" if token.revoked_at is not None else "has expired"
        return f"cannot accept the token {token.id}: it {how}; ask an admin for a new one"
    what = "your session" if token.kind is TokenKind.SESSION else "this login"
    again = "sign in again" if token.kind is TokenKind.SESSION else "run `muster login` again"
    if token.revoked_at is not None:
        return f"cannot go on: {what} was ended; {again}"
    if token.over(now=now):
        return f"cannot go on: {what} has expired; {again}"
    return f"cannot go on: {what} ended because it was not used for too long; {again}"


def bearer(authorization: str | None) -> str:
    scheme, _, secret = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not 0 < len(secret) <= _LONGEST or not secret.isascii():
        raise Unauthenticated(NO_TOKEN)
    return secret


async def mint(
    tokens: AccessStore,
    *,
    ids: Ids,
    name: str,
    role: Role,
    now: float,
    expires_at: float | None = None,
    template: str | None = None,
    actor: str = "",
    token_id: str | None = None,
    kind: TokenKind = TokenKind.TOKEN,
    idle_timeout: float | None = None,
    claims: Claims | None = None,
    prefix: str = SECRET_PREFIX,
) -> tuple[ApiToken, str]:
    """Create a token and its secret, which is shown this once. Raises Conflict if `token_id` is taken."""
    secret = prefix + ids.secret()
    token = ApiToken(
        id=token_id or ids.new("tok"),
        name=name,
        role=role,
        created_at=now,
        expires_at=expires_at,
        template=template,
        kind=kind,
        idle_timeout=idle_timeout,
        seen_at=None if idle_timeout is None else now,
        claims=claims,
    )
    await tokens.add_token(token, secret_hash=hashed(secret), actor=actor)
    return token, secret


async def mint_first_admin(tokens: AccessStore, *, ids: Ids, now: float, actor: str = "") -> str | None:
    """Create an admin token if the store has no valid one, and return its secret, else None.

    An admin's session or login is no such token. Replicas that start together look at the same store and
    choose the same id, so one of them gets it.
    """
    while True:
        found = await tokens.tokens()
        if admins(found, now=now):
            return None
        taken = {token.id for token in found}
        free = next(name for number in count(1) if (name := f"tok-admin-{number}") not in taken)
        try:
            _, secret = await mint(
                tokens, ids=ids, name="first admin", role=Role.ADMIN, now=now, actor=actor, token_id=free
            )
        except Conflict:
            continue
        return secret


def admins(found: Sequence[ApiToken], *, now: float) -> list[ApiToken]:
    """Return the valid tokens of admins. Sessions and logins don't count: rules may give them no role now."""
    return [
        token
        for token in found
        if token.kind is TokenKind.TOKEN and token.role is Role.ADMIN and token.valid(now=now)
    ]
