"""API tokens over the wire. The secret is shown once, in the answer to its making."""

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import Field

from muster.api.models.base import EXAMPLE_TIME, In, Out, at, example, maybe_at
from muster.domain.access import ApiToken, Role

TOKEN_EXAMPLE: dict[str, Any] = {
    "id": "tok-1hx2k9q0c7m3t8v5e5",
    "name": "ci",
    "role": "operator",
    "created_at": EXAMPLE_TIME,
    "expires_at": None,
    "revoked_at": None,
    "template": None,
}


class TokenIn(In):
    model_config = example({"name": "ci", "role": "operator", "expires_in": 2592000})

    name: str
    role: Annotated[Role, Field(strict=False)]
    expires_in: float | None = None
    """Seconds from now; null: it does not expire."""
    template: str | None = None
    """For the role enrol: the one template whose apps it admits."""


class TokenOut(Out):
    model_config = example(TOKEN_EXAMPLE)

    id: str
    name: str
    role: Role
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    template: str | None

    @classmethod
    def of(cls, token: ApiToken) -> Self:
        return cls(**token_fields(token))


class MintedOut(TokenOut):
    model_config = example({**TOKEN_EXAMPLE, "secret": "shown-once"})

    secret: str


class WhoOut(Out):
    model_config = example(
        {
            "token_id": TOKEN_EXAMPLE["id"],
            "name": "ci",
            "role": "operator",
            "expires_at": None,
            "installation_id": "inst-1hx2k9q0c7m3t8v5e4",
            "version": "0.1.0",
        }
    )

    token_id: str
    name: str
    role: Role
    expires_at: datetime | None
    installation_id: str
    version: str


class TokensOut(Out):
    model_config = example({"items": [TOKEN_EXAMPLE]})

    items: list[TokenOut]


def token_fields(token: ApiToken) -> dict[str, Any]:
    return {
        "id": token.id,
        "name": token.name,
        "role": token.role,
        "created_at": at(token.created_at),
        "expires_at": maybe_at(token.expires_at),
        "revoked_at": maybe_at(token.revoked_at),
        "template": token.template,
    }
