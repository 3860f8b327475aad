"""Workflow runs of GitHub Actions, and the runners that serve their jobs: names, labels, where they belong.

A runner's name says whose it is: the installation's prefix and the assignment that it serves. So a name is
used once, and what is left over can be told from everybody else's.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from muster.domain import checks
from muster.domain.errors import InvalidRequest
from muster.domain.ids import AssignmentId

LABEL_MAX = 200
ACCOUNT_MAX = 100
LABELS_MOST = 20
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@+-]*")
_OWNER = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:_[A-Za-z0-9]+)?"
_NAME = r"[A-Za-z0-9._-]+"
_REPOSITORY = re.compile(f"{_OWNER}/{_NAME}")
_ACCOUNT = re.compile(_OWNER)
_PREFIX = "muster"
RUN_ID_MOST = 1 << 62
ATTEMPT_MOST = 10_000


def repository(field: str, value: object) -> str:
    text = checks.text(field, value, longest=2 * ACCOUNT_MAX)
    if not _REPOSITORY.fullmatch(text) or text.rpartition("/")[2] in (".", ".."):
        raise InvalidRequest(field, value, "must be a repository like acme/shop")
    return text


def label(field: str, value: object) -> str:
    text = checks.text(field, value, longest=LABEL_MAX)
    if not _LABEL.fullmatch(text):
        rule = "must be a label: letters, digits and . _ / : @ + - only, beginning with a letter or digit"
        raise InvalidRequest(field, value, rule)
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """One attempt of one workflow run: whose jobs the nodes are for."""

    repository: str
    run_id: int
    attempt: int
    label: str
    """What `runs-on` names."""

    def __post_init__(self) -> None:
        repository("workflow.repository", self.repository)
        checks.whole("workflow.run_id", self.run_id, least=1, most=RUN_ID_MOST)
        checks.whole("workflow.attempt", self.attempt, least=1, most=ATTEMPT_MOST)
        label("workflow.label", self.label)

    @property
    def run(self) -> str:
        """The attempt as a run of Muster's."""
        return run_name(self.repository, self.run_id, self.attempt)


def whole_workflow(field: str, value: object) -> Workflow:
    if not isinstance(value, Workflow):
        raise InvalidRequest(field, value, "must name a repository, a run_id and an attempt")
    return value


def run_name(repository: str, run_id: int, attempt: int) -> str:
    return f"{repository}/{run_id}-{attempt}"


def default_label(run_id: int, attempt: int) -> str:
    """With the attempt, so that a re-run can't meet runners of the attempt before."""
    return f"{run_id}-{attempt}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerSpec:
    """How nodes of a template are registered as runners."""

    scope: str = ""
    """An organisation or a repository; empty: the repository of the workflow that asks."""
    group: str = ""
    """A runner group of the organisation; empty: its default group."""
    labels: tuple[str, ...] = ()
    """Beside the run's own."""
    ephemeral: bool | None = None
    """Whether a runner serves one job only. None: where nodes are never reused."""

    def __post_init__(self) -> None:
        if self.scope:
            Scope.named(self.scope)
        if self.group:
            checks.text("runner.group", self.group, longest=checks.NAME_MAX)
            if "/" in self.scope:
                raise InvalidRequest("runner.group", self.group, "must be empty: repositories have no groups")
        if len(self.labels) > LABELS_MOST:
            rule = f"must be a list of at most {LABELS_MOST} labels"
            raise InvalidRequest("runner.labels", self.labels, rule)
        for each in self.labels:
            label("runner.labels", each)
        if self.ephemeral is not None:
            checks.flag("runner.ephemeral", self.ephemeral)


def runner_spec(field: str, value: object) -> RunnerSpec:
    if not isinstance(value, RunnerSpec):
        raise InvalidRequest(field, value, "must be a table: scope, group, labels, ephemeral")
    return value


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Scope:
    """Where runners are registered: a repository, or an organisation."""

    owner: str
    repository: str = ""
    """Empty: the organisation."""

    @classmethod
    def named(cls, name: str) -> "Scope":
        """From `acme` or `acme/shop`."""
        checks.text("runner.scope", name, longest=2 * ACCOUNT_MAX)
        if "/" in name:
            repository("runner.scope", name)
            owner, _, rest = name.partition("/")
            return cls(owner=owner, repository=rest)
        if not _ACCOUNT.fullmatch(name):
            raise InvalidRequest("runner.scope", name, "must be an organisation or a repository: acme/shop")
        return cls(owner=name)

    def __str__(self) -> str:
        return f"{self.owner}/{self.repository}" if self.repository else self.owner


def scope_of(spec: RunnerSpec, workflow: Workflow | None) -> Scope | None:
    """None: neither the template nor the request says where."""
    name = spec.scope or (workflow.repository if workflow is not None else "")
    return Scope.named(name) if name else None


def runner_prefix(installation_id: str) -> str:
    return f"{_PREFIX}-{installation_id}-"


def runner_name(installation_id: str, assignment_id: AssignmentId) -> str:
    return runner_prefix(installation_id) + assignment_id


def assignment_of(installation_id: str, name: str) -> AssignmentId | None:
    """Which assignment a runner serves; None: it isn't ours."""
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

    def is_over(self, attempt: int) -> bool:
        """Whether nothing of this attempt is still to come: it ended, or a later one began."""
        return self.attempt > attempt or (self.attempt == attempt and self.status is RunStatus.COMPLETED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    labels: tuple[str, ...]
    """In lower case: GitHub doesn't tell them apart by case."""
    queued: bool
    """It waits for a runner."""
