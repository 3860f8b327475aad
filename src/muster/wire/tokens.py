"""API tokens. The secret is shown once, in the answer to its making."""

from typing import Any

from muster.domain.access import Role, TokenKind
from muster.wire.base import EXAMPLE_TIME, Shape, Time

TOKEN_EXAMPLE: dict[str, Any] = {
    "id": "tok-1hx2k9q0c7m3t8v5e5",
    "name": "ci",
    "role": "operator",
    "created_at": EXAMPLE_TIME,
    "expires_at": None,
    "revoked_at": None,
    "template": None,
    "kind": "token",
    "seen_at": None,
}


class TokenRequest(Shape):
    EXAMPLE = {"name": "ci", "role": "operator", "expires_in": 2592000}

    name: str
    role: Role
    expires_in: float | None = None
    """Seconds from now; null: it does not expire."""
    template: str | None = None
    """For the role enrol: the one template whose apps it admits."""


class Token(Shape):
    EXAMPLE = TOKEN_EXAMPLE

    id: str
    name: str
    role: Role
    created_at: Time
    expires_at: Time | None = None
    revoked_at: Time | None = None
    template: str | None = None
    """What an enrolment token is good for."""
    kind: TokenKind = TokenKind.TOKEN
    """Who made it: an admin, or a person who signed in on the page or in a terminal."""
    seen_at: Time | None = None
    """When a session was last used, to the minute."""


class MintedToken(Token):
    EXAMPLE = {**TOKEN_EXAMPLE, "secret": "shown-once"}

    secret: str


class Identity(Shape):
    """Whose token was shown, and to which installation."""

    EXAMPLE = {
        "token_id": TOKEN_EXAMPLE["id"],
        "name": "ci",
        "role": "operator",
        "kind": "token",
        "expires_at": None,
        "installation_id": "inst-1hx2k9q0c7m3t8v5e4",
        "version": "0.2.0",
    }

    token_id: str
    name: str
    role: Role
    kind: TokenKind = TokenKind.TOKEN
    expires_at: Time | None = None
    installation_id: str
    version: str
