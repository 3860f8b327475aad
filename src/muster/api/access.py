"""Who is asking: people and programs by API token, nodes by their own token.

Owns the reading of `Authorization`. Secrets are compared by hash, never logged, never shown again. A token
that nobody knows and none at all get the same answer; the holder of one that has ended is told so.
"""

from enum import StrEnum

from muster.api.problems import Unauthenticated
from muster.domain.access import ApiToken, Role, may
from muster.domain.errors import Forbidden
from muster.domain.ids import NodeId
from muster.enrolment.enroller import Enrolment, hashed
from muster.ports.access import AccessStore
from muster.ports.clock import Clock
from muster.ports.ids import Ids
from muster.ports.store import Standing

SECRET_PREFIX = "muster_"  # noqa: S105 — lets scanners of leaked secrets know what they found
_LONGEST = 512
NO_TOKEN = "cannot tell who is asking: send a valid token as 'Authorization: Bearer …'"  # noqa: S105


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


class Gate:
    def __init__(self, tokens: AccessStore, enrolment: Enrolment, clock: Clock) -> None:
        self._tokens = tokens
        self._enrolment = enrolment
        self._clock = clock

    async def caller(self, authorization: str | None, needed: Role) -> ApiToken:
        """The token that was shown. Raises Unauthenticated, or Forbidden naming the role that is needed."""
        token = await self._tokens.token_for(hashed(bearer(authorization)))
        if token is None:
            raise Unauthenticated(NO_TOKEN)
        now = self._clock.now()
        if not token.valid(now=now):
            how = "was revoked" if token.revoked_at is not None else "has expired"
            raise Unauthenticated(f"cannot accept the token {token.id}: it {how}; ask an admin for a new one")
        if not may(token.role, needed):
            raise Forbidden(f"cannot do this as {token.role}: it needs the role {needed}")
        return token

    async def node(self, authorization: str | None) -> NodeId:
        try:
            return await self._enrolment.identify(bearer(authorization))
        except Forbidden as error:
            raise Unauthenticated(str(error)) from error

    async def speaker(self, authorization: str | None) -> Standing:
        try:
            return await self._enrolment.recognise(bearer(authorization))
        except Forbidden as error:
            raise Unauthenticated(str(error)) from error


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
) -> tuple[ApiToken, str]:
    """A new token and its secret, which nobody can ask for again."""
    secret = SECRET_PREFIX + ids.secret()
    token = ApiToken(
        id=ids.new("tok"), name=name, role=role, created_at=now, expires_at=expires_at, template=template
    )
    await tokens.add_token(token, secret_hash=hashed(secret), actor=actor)
    return token, secret
