"""Who may use the API: roles, and tokens that carry one. The secret itself is never stored, only its hash."""

import hashlib
from dataclasses import dataclass
from enum import StrEnum

from muster.domain import checks
from muster.domain.errors import InvalidRequest


class Role(StrEnum):
    VIEWER = "viewer"
    """Sees everything."""
    OPERATOR = "operator"
    """Also provisions, runs, releases, cancels, drains, extends, pauses."""
    ADMIN = "admin"
    """Also applies templates and limits, and makes tokens."""
    ENROL = "enrol"
    """Beside the others: enrols apps as nodes of one template, and does nothing else."""


_RANK = {Role.VIEWER: 1, Role.OPERATOR: 2, Role.ADMIN: 3}


def may(held: Role, needed: Role) -> bool:
    if Role.ENROL in (held, needed):
        return held is needed
    return _RANK[held] >= _RANK[needed]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiToken:
    id: str
    name: str
    role: Role
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None
    template: str | None = None
    """What an enrolment token is good for."""

    def __post_init__(self) -> None:
        checks.text("name", self.name, longest=checks.NAME_MAX)
        if self.role is not Role.ENROL:
            if self.template is not None:
                raise InvalidRequest("template", self.template, f"must be left out for the role {self.role}")
        elif self.template is None:
            raise InvalidRequest("template", None, "must name the template that apps enrol for")
        else:
            checks.name("template", self.template)

    @property
    def actor(self) -> str:
        """Return who holds the token, as events name them. People make up names, so the id follows."""
        return f"{self.name} ({self.id})"

    def valid(self, *, now: float) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def hashed(secret: str) -> str:
    """Return the hash of a secret, for comparison. Secrets are long and random, so no salt is needed."""
    return hashlib.sha256(secret.encode()).hexdigest()
