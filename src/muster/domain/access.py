"""Who may use the API: roles, and tokens that carry one. The secret itself is never stored, only its hash."""

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from muster.domain import checks
from muster.domain.errors import Forbidden, InvalidRequest
from muster.domain.workflow import run_name


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
        """Who holds it, as events name them. Names are made up by people; the id is not."""
        return f"{self.name} ({self.id})"

    def valid(self, *, now: float) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """A rule of the operator's: which workflows may sign in by themselves, as what, and for what."""

    name: str
    repository: str
    """A pattern: `acme/shop`, `acme/*`."""
    refs: tuple[str, ...] = ("*",)
    """Patterns: `refs/heads/main`, `refs/tags/*`."""
    environment: str = ""
    """A deployment environment that the job must run in; empty: any, or none."""
    role: Role = Role.OPERATOR
    templates: tuple[str, ...] = ()
    """What it may provision."""

    def __post_init__(self) -> None:
        checks.name("trust", self.name)
        checks.text("repository", self.repository)
        if self.repository.partition("/")[0] in ("", "*") or "/" not in self.repository:
            rule = "must be a repository or all of one owner's: acme/shop, acme/*"
            raise InvalidRequest("repository", self.repository, rule)
        for ref in self.refs:
            checks.text("refs", ref)
        if self.role not in (Role.VIEWER, Role.OPERATOR):
            rule = f"must be {Role.OPERATOR} or {Role.VIEWER}: workflows administer nothing"
            raise InvalidRequest("role", self.role, rule)
        for template in self.templates:
            checks.name("templates", template)
        if self.role is Role.OPERATOR and not self.templates:
            raise InvalidRequest("templates", self.templates, "must name at least one template")

    def covers(self, *, repository: str, ref: str, environment: str) -> bool:
        return (
            _like(repository.lower(), self.repository.lower())
            and any(_like(ref, pattern) for pattern in self.refs)
            and self.environment in ("", environment)
        )


def _like(text: str, pattern: str) -> bool:
    """Anchored; `*` is any run of characters and nothing else is special."""
    return fnmatch.fnmatchcase(text, pattern.replace("[", "[[]").replace("?", "[?]"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """What a workflow that signed in by itself is held to: its own repository, run and templates."""

    repository: str
    run_id: int
    attempt: int
    role: Role
    templates: tuple[str, ...]

    @property
    def run(self) -> str:
        """The only run that it may ask for."""
        return run_name(self.repository, self.run_id, self.attempt)


def confined(
    rules: Sequence[Trust], *, repository: str, ref: str, environment: str, run_id: int, attempt: int
) -> Confinement:
    """By all rules that cover it: the highest role, and every template. Raises Forbidden if none does."""
    fitting = [rule for rule in rules if rule.covers(repository=repository, ref=ref, environment=environment)]
    if not fitting:
        at = f"{ref} in the environment {environment}" if environment else ref
        raise Forbidden(
            f"cannot accept workflows of {repository} at {at}: no [trust] rule of this server covers them"
        )
    return Confinement(
        repository=repository,
        run_id=run_id,
        attempt=attempt,
        role=max((rule.role for rule in fitting), key=_RANK.__getitem__),
        templates=tuple(dict.fromkeys(name for rule in fitting for name in rule.templates)),
    )
