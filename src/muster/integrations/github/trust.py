"""Let workflows sign in by themselves: what is proven of a job, which rules cover it, and its limits.

A rule narrows with everything that it says. Several rules add up, each with its own bounds.
"""

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass

from muster.domain import checks
from muster.domain.access import Role
from muster.domain.errors import Forbidden, InvalidRequest
from muster.domain.requests import ProvisionRequest
from muster.domain.template import RESOURCE_CLASSES, TemplateSpec
from muster.integrations.github.requests import WORKFLOW, run_name

REPOSITORY_ID_MOST = 1 << 62
_EVENT = re.compile(r"[a-z][a-z0-9_]*")
_FOLDER = ".github/workflows/"
_OWN = re.compile(r"\.github/workflows/[^/@]+")
_FOREIGN = re.compile(r"(?!\*)[^/@]+/[^/@]+/\.github/workflows/[^/@]+@.+")
_FILE = re.compile(r"([^/@]+/[^/@]+)/([^@]+)@(refs/.+|[0-9a-f]{40,64})")
"""As GitHub writes it. A name with an @ of its own is no file that a rule can mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A job of a workflow run, as its issuer vouches for it."""

    repository: str
    ref: str
    run_id: int
    attempt: int
    environment: str = ""
    workflow_ref: str = ""
    """The file that defines the job, and at which ref: `acme/shop/.github/workflows/ci.yml@refs/heads/main`.
    A reusable one, if the job is of one."""
    event: str = ""
    """What began the run: `push`, `pull_request`."""
    repository_id: int = 0
    """Never given to another repository, unlike its name. 0: not said."""

    def __str__(self) -> str:
        return (
            f"{self.repository} (id {self.repository_id or 'unknown'}) at {self.ref}"
            f"{f' in the environment {self.environment}' if self.environment else ''}"
            f"{f', on {self.event}' if self.event else ''}"
            f"{f', defined by {self.workflow_ref}' if self.workflow_ref else ''}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """A rule of the operator's: which workflows may sign in by themselves, as what, and for what."""

    name: str
    repository: str
    """A pattern: `acme/shop`, `acme/*`."""
    repository_id: int = 0
    """The repository's number, which stays when its name changes. 0: any with the name."""
    refs: tuple[str, ...] = ("*",)
    """Patterns: `refs/heads/main`, `refs/tags/*`."""
    workflows: tuple[str, ...] = ()
    """Patterns of files that may define the job; none: any. `.github/workflows/ci.yml`: the repository's own,
    at the ref of the run. `acme/shared/.github/workflows/ci.yml@refs/tags/*`: a reusable one."""
    events: tuple[str, ...] = ()
    """What may have begun the run: `push`, `workflow_dispatch`; none: anything."""
    environment: str = ""
    """A deployment environment that the job must run in; empty: any, or none."""
    role: Role = Role.OPERATOR
    templates: tuple[str, ...] = ()
    """What it may provision."""
    resource_classes: tuple[str, ...] = ()
    """Sizes that it may ask for, beside the template's own; none: any."""
    instance_types: tuple[str, ...] = ()
    """Patterns: what it asks for instead of the template's own is one of these or narrower; none: any."""

    def __post_init__(self) -> None:
        checks.name("trust", self.name)
        checks.text("repository", self.repository)
        if self.repository.partition("/")[0] in ("", "*") or "/" not in self.repository:
            rule = "must be a repository or all of one owner's: acme/shop, acme/*"
            raise InvalidRequest("repository", self.repository, rule)
        checks.whole("repository_id", self.repository_id, least=0, most=REPOSITORY_ID_MOST)
        for ref in self.refs:
            checks.text("refs", ref)
        self._check_origins()
        if self.role not in (Role.VIEWER, Role.OPERATOR):
            rule = f"must be {Role.OPERATOR} or {Role.VIEWER}: workflows administer nothing"
            raise InvalidRequest("role", self.role, rule)
        self._check_grants()

    def _check_origins(self) -> None:
        for file in self.workflows:
            checks.text("workflows", file)
            if not _OWN.fullmatch(file) and not _FOREIGN.fullmatch(file):
                rule = f"must be files like {_FOLDER}ci.yml, or acme/shared/{_FOLDER}ci.yml@refs/heads/main"
                raise InvalidRequest("workflows", file, rule)
        for event in self.events:
            if not _EVENT.fullmatch(checks.text("events", event)):
                rule = "must be events as GitHub names them: push, pull_request, workflow_dispatch"
                raise InvalidRequest("events", event, rule)

    def _check_grants(self) -> None:
        for template in self.templates:
            checks.name("templates", template)
        if self.role is Role.OPERATOR and not self.templates:
            raise InvalidRequest("templates", self.templates, "must name at least one template")
        for each in self.resource_classes:
            checks.known("resource_classes", each, RESOURCE_CLASSES)
        if self.instance_types:
            checks.patterns("instance_types", self.instance_types)

    def covers(self, job: Workload) -> bool:
        return (
            _like(job.repository.lower(), self.repository.lower())
            and self.repository_id in (0, job.repository_id)
            and any(_like(job.ref, pattern) for pattern in self.refs)
            and (not self.workflows or any(_defines(pattern, job) for pattern in self.workflows))
            and (not self.events or job.event in self.events)
            and self.environment in ("", job.environment)
        )

    def excess(self, request: ProvisionRequest, spec: TemplateSpec) -> str | None:
        """What this rule doesn't allow of a request for one of its templates; None: it may be made."""
        size, types = request.resource_class, request.instance_types
        if self.resource_classes and size not in (None, spec.resource_class, *self.resource_classes):
            sizes = dict.fromkeys((spec.resource_class, *self.resource_classes))
            return f"resource_class must be one of {', '.join(sizes)}"
        if self.instance_types and types not in (None, spec.instance_types):
            wider = [each for each in types or () if not _narrows(each, self.instance_types)]
            if wider:
                return f"instance_types must be within {' '.join(self.instance_types)}, not {wider[0]}"
        return None


def _like(text: str, pattern: str) -> bool:
    """Anchored; `*` is any run of characters and nothing else is special."""
    return fnmatch.fnmatchcase(text, pattern.replace("[", "[[]").replace("?", "[?]"))


def _narrows(pattern: str, allowed: Sequence[str]) -> bool:
    """Whether all that a pattern means is meant by one of the others: only a star stands for a star."""
    return any(_like(pattern.lower(), other.lower()) for other in allowed)


def _defines(pattern: str, job: Workload) -> bool:
    file = _FILE.fullmatch(job.workflow_ref)
    if file is None:
        return False
    home, path, ref = file.groups()
    if "@" not in pattern:
        return home.lower() == job.repository.lower() and ref == job.ref and _like(path, pattern)
    where, _, refs = pattern.partition("@")
    owner, name, rest = where.split("/", 2)
    return _like(home.lower(), f"{owner}/{name}".lower()) and _like(path, rest) and _like(ref, refs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """What a workflow that signed in by itself is held to: its own repository and run, and these rules."""

    repository: str
    run_id: int
    attempt: int
    rules: tuple[Trust, ...]

    @property
    def owner(self) -> str:
        return self.repository

    @property
    def name(self) -> str:
        return f"run {self.run_id}-{self.attempt}"

    @property
    def run(self) -> str:
        """The only run that it may ask for."""
        return run_name(self.repository, self.run_id, self.attempt)

    @property
    def role(self) -> Role:
        return Role.OPERATOR if self._grants else Role.VIEWER

    @property
    def templates(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for rule in self._grants for name in rule.templates))

    @property
    def _grants(self) -> tuple[Trust, ...]:
        return tuple(rule for rule in self.rules if rule.role is Role.OPERATOR)

    def granting(self, template: str) -> Sequence[Trust]:
        """The rules by which it may provision the template. Raises Forbidden if there are none."""
        rules = [rule for rule in self._grants if template in rule.templates]
        if not rules:
            allowed = ", ".join(self.templates) or "none"
            raise Forbidden(
                f"cannot provision template {template} for {self.repository}: its templates are {allowed}"
            )
        return rules

    def check(self, request: ProvisionRequest, spec: TemplateSpec) -> None:
        """Raises Forbidden unless one rule allows all of the request."""
        rules = self.granting(request.template)
        found = [rule.excess(request, spec) for rule in rules]
        if None not in found:
            raise Forbidden(
                f"cannot provision {request.template} as asked for {self.repository}: {found[0]}; "
                f"an operator may allow more in [trust.{rules[0].name}]"
            )
        if request.max_runtime is not None and request.max_runtime > spec.max_runtime:
            raise Forbidden(
                f"cannot provision {spec.name} for {request.max_runtime:g} s: workflows get at most the "
                f"{spec.max_runtime:g} s of the template, whose max_runtime an operator may raise"
            )
        self._check_workflow(request, spec)

    def _check_workflow(self, request: ProvisionRequest, spec: TemplateSpec) -> None:
        """Refuse runners for another run, and those without a workflow, which could have any label."""
        workflow = WORKFLOW.of(request)
        if workflow is None:
            if spec.kitted:
                raise Forbidden(
                    f"cannot provision runners of {spec.name} without `workflow`: "
                    "a workflow gets runners for its own run only, so it must name that"
                )
            return
        asked = (workflow.repository.lower(), workflow.run_id, workflow.attempt)
        if asked != (self.repository.lower(), self.run_id, self.attempt):
            raise Forbidden(
                f"cannot provision for run {workflow.run_id}-{workflow.attempt} of {workflow.repository}: "
                f"this is {self.name} of {self.repository}"
            )
        if workflow.named.partition("-")[0] != str(self.run_id):
            # Another run's label would get us its jobs.
            rule = f"it must be {self.run_id}, or begin with {self.run_id}-"
            raise Forbidden(f"cannot give out the label {workflow.named}: {rule}")


def confined(rules: Sequence[Trust], job: Workload) -> Confinement:
    """By all rules that cover it. Raises Forbidden if none does."""
    fitting = tuple(rule for rule in rules if rule.covers(job))
    if not fitting:
        raise Forbidden(f"cannot accept workflows of {job}: no [trust] rule of this server covers them")
    return Confinement(repository=job.repository, run_id=job.run_id, attempt=job.attempt, rules=fitting)
