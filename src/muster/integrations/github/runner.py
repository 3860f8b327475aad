"""Runners of GitHub Actions, and the runs and jobs that they serve: names, labels, where they belong.

A runner's name says whose it is: the installation's prefix and the assignment that it serves. So a name is
used once, and what is left over can be told from everybody else's.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from muster.domain import checks
from muster.domain.errors import InvalidRequest
from muster.domain.ids import AssignmentId
from muster.domain.workflow import ACCOUNT_MAX, OWNER, Workflow, label, repository

LABELS_MOST = 20
_ACCOUNT = re.compile(OWNER)
_PREFIX = "muster"


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
