"""What Actions runners and workflow runs are: names, scopes, and what a template says about its runners."""

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import msgspec

from muster.domain import checks
from muster.domain.errors import InvalidRequest
from muster.domain.ids import AssignmentId
from muster.domain.template import RESOURCE_CLASSES
from muster.integrations.github.requests import ACCOUNT_MAX, OWNER, QueuedJob, Workflow, label, repository

LABELS_MOST = 20
RERUNS_MOST = 50
"""GitHub begins a run anew at most so often."""
_ACCOUNT = re.compile(OWNER)
_PREFIX = "muster"
ENTERPRISES = "enterprises"
"""With which the name of an enterprise begins where a scope is named, as in its URL."""


class WorkflowJob(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    run_id: int
    status: str
    name: str = ""
    run_attempt: int | None = None
    workflow_name: str | None = None
    conclusion: str | None = None
    created_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    labels: tuple[str, ...] = ()
    runner_id: int | None = None
    runner_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerSpec:
    """How nodes of a template are registered as runners."""

    scope: str = ""
    """An organisation, a repository or an enterprise; empty: the repository of the workflow that asks."""
    group: str = ""
    """A runner group of the organisation or enterprise; empty: its default group."""
    labels: tuple[str, ...] = ()
    """Beside the run's own."""
    ephemeral: bool | None = None
    """Whether a runner serves one job only. None: where nodes are never reused."""
    scale_set: str = ""
    """A scale set: GitHub assigns jobs with `runs-on` of this name to it. Empty: runs ask for runners."""
    max_runners: int | None = None
    """Of the scale set. None: as many as `max_nodes` of the template allows."""
    min_idle: int = 0
    """Registered runners of the scale set that wait for a job, on top of those that have one."""
    rerun_interrupted: int = 0
    """How often failed jobs of a run are asked for again because their machines were lost; 0: never."""
    sizes: tuple[str, ...] = ()
    """Resource classes that labels of jobs may ask for, as in `muster-linux/xlarge`; empty: any."""

    def __post_init__(self) -> None:
        if self.scope:
            Scope.named(self.scope)
        self._check_scale_set()
        if self.group:
            checks.text("runner.group", self.group, longest=checks.NAME_MAX)
            if self.scope and Scope.named(self.scope).repository:
                raise InvalidRequest("runner.group", self.group, "must be empty: repositories have no groups")
        if len(self.labels) > LABELS_MOST:
            rule = f"must be a list of at most {LABELS_MOST} labels"
            raise InvalidRequest("runner.labels", self.labels, rule)
        for each in self.labels:
            label("runner.labels", each)
        checks.whole("runner.rerun_interrupted", self.rerun_interrupted, least=0, most=RERUNS_MOST)
        for size in self.sizes:
            checks.known("runner.sizes", size, RESOURCE_CLASSES)
        if self.ephemeral is not None:
            checks.flag("runner.ephemeral", self.ephemeral)

    def _check_scale_set(self) -> None:
        if self.max_runners is not None:
            checks.whole("runner.max_runners", self.max_runners, least=0, most=checks.MACHINES_MAX)
        checks.whole("runner.min_idle", self.min_idle, least=0, most=checks.COUNT_MAX)
        if not self.scale_set:
            for name, given in (("max_runners", self.max_runners), ("min_idle", self.min_idle or None)):
                if given is not None:
                    rule = 'must come with runner.scale_set, the name that `runs-on` uses: "muster-linux"'
                    raise InvalidRequest(f"runner.{name}", given, rule)
            return
        label("runner.scale_set", self.scale_set)
        if not self.scope:
            rule = "must come with runner.scope: the repository, organisation or enterprise that it serves"
            raise InvalidRequest("runner.scale_set", self.scale_set, rule)
        if self.ephemeral is False:
            rule = "must be left out: runners of a scale set serve one job each"
            raise InvalidRequest("runner.ephemeral", self.ephemeral, rule)
        if self.max_runners is not None and self.min_idle > self.max_runners:
            rule = f"must not exceed runner.max_runners ({self.max_runners})"
            raise InvalidRequest("runner.min_idle", self.min_idle, rule)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Scope:
    """Where runners are registered: a repository, an organisation, or an enterprise."""

    owner: str
    repository: str = ""
    """Empty: the organisation, or the enterprise."""
    enterprise: bool = False
    """Whether the owner is an enterprise."""

    @classmethod
    def named(cls, name: str) -> "Scope":
        """Parse `acme`, `acme/shop` or `enterprises/acme`."""
        checks.text("runner.scope", name, longest=2 * ACCOUNT_MAX)
        first, _, enterprise = name.partition("/")
        if first.lower() == ENTERPRISES and _ACCOUNT.fullmatch(enterprise):
            return cls(owner=enterprise, enterprise=True)  # GitHub gives no account this name
        if "/" in name:
            repository("runner.scope", name)
            owner, _, rest = name.partition("/")
            return cls(owner=owner, repository=rest)
        if not _ACCOUNT.fullmatch(name):
            rule = "must be an organisation, a repository (acme/shop) or an enterprise (enterprises/acme)"
            raise InvalidRequest("runner.scope", name, rule)
        return cls(owner=name)

    @property
    def api_path(self) -> str:
        """Return where the REST API has it."""
        if self.repository:
            return f"/repos/{self}"
        return f"/{self}" if self.enterprise else f"/orgs/{self.owner}"

    def covers(self, repository: str) -> bool:
        """Return whether GitHub gives a repository's jobs to runners here.

        It does not say which organisations are of an enterprise, so that is taken to cover all.
        """
        if self.enterprise:
            return True
        asked = repository if self.repository else repository.partition("/")[0]
        return asked.lower() == str(self).lower()

    def __str__(self) -> str:
        if self.enterprise:
            return f"{ENTERPRISES}/{self.owner}"
        return f"{self.owner}/{self.repository}" if self.repository else self.owner


def scope_of(spec: RunnerSpec, asks: Workflow | QueuedJob | None) -> Scope | None:
    """Return where a runner is registered, or None if neither the template nor the request says so."""
    name = spec.scope or (asks.repository if asks is not None else "")
    return Scope.named(name) if name else None


def runner_prefix(installation_id: str) -> str:
    return f"{_PREFIX}-{installation_id}-"


def runner_name(installation_id: str, assignment_id: AssignmentId) -> str:
    return runner_prefix(installation_id) + assignment_id


def assignment_of(installation_id: str, name: str) -> AssignmentId | None:
    """Return the assignment that a runner serves, or None if the runner isn't ours."""
    prefix = runner_prefix(installation_id)
    return AssignmentId(name[len(prefix) :]) if name.startswith(prefix) and len(name) > len(prefix) else None


class RunStatus(StrEnum):
    """How far a workflow run is. GitHub's other words all mean that it isn't over."""

    ACTIVE = "active"
    COMPLETED = "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRun:
    repository: str
    run_id: int
    attempt: int
    status: RunStatus
    conclusion: str = ""
    """How it ended, in GitHub's word; empty: it isn't over."""

    def is_over(self, attempt: int) -> bool:
        """Return whether nothing of this attempt is still to come: it ended, or a later one began."""
        return self.attempt > attempt or (self.attempt == attempt and self.status is RunStatus.COMPLETED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    id: int
    name: str
    online: bool
    busy: bool
    labels: tuple[str, ...]
    """In lower case: GitHub doesn't tell them apart by case."""
