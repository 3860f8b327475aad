"""A workflow run that asks for nodes, as a request names it: whose jobs the nodes are for."""

import re
from dataclasses import dataclass

from muster.config.tables import RequestTable
from muster.domain import checks
from muster.domain.errors import InvalidRequest
from muster.domain.requests import ProvisionRequest

LABEL_MAX = 200
ACCOUNT_MAX = 100
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@+-]*")
OWNER = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:_[A-Za-z0-9]+)?"
_NAME = r"[A-Za-z0-9._-]+"
_REPOSITORY = re.compile(f"{OWNER}/{_NAME}")
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
    label: str | None = None
    """What `runs-on` names; by default the run id and the attempt: 123456789-1."""

    def __post_init__(self) -> None:
        repository("workflow.repository", self.repository)
        checks.whole("workflow.run_id", self.run_id, least=1, most=RUN_ID_MOST)
        checks.whole("workflow.attempt", self.attempt, least=1, most=ATTEMPT_MOST)
        if self.label is None:
            object.__setattr__(self, "label", default_label(self.run_id, self.attempt))
        label("workflow.label", self.label)

    @property
    def named(self) -> str:
        """Its label, which it always has."""
        return self.label or ""

    @property
    def run(self) -> str:
        """The attempt as a run of Muster's."""
        return run_name(self.repository, self.run_id, self.attempt)


def run_name(repository: str, run_id: int, attempt: int) -> str:
    return f"{repository}/{run_id}-{attempt}"


def default_label(run_id: int, attempt: int) -> str:
    """With the attempt, so that a re-run can't meet runners of the attempt before."""
    return f"{run_id}-{attempt}"


def _own_run(request: ProvisionRequest, workflow: Workflow) -> None:
    if request.run != workflow.run:
        raise InvalidRequest("run", request.run, f"must be {workflow.run}, the run of its workflow")


WORKFLOW = RequestTable(name="workflow", kind=Workflow, runtime="github", rule=_own_run)
"""Whose jobs the nodes serve. They are given back when it is over, asked for or not."""
