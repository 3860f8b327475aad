"""What a provision request says to GitHub: a workflow run, a queued job, or a runner of a scale set."""

import re
from dataclasses import dataclass

from muster.config.tables import RequestTable
from muster.domain import checks
from muster.domain.errors import InvalidRequest
from muster.domain.requests import ProvisionRequest
from muster.domain.run_decisions import RESERVED

LABEL_MAX = 200
ACCOUNT_MAX = 100
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@+-]*")
OWNER = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:_[A-Za-z0-9]+)?"
_NAME = r"[A-Za-z0-9._-]+"
_REPOSITORY = re.compile(f"{OWNER}/{_NAME}")
RUN_ID_MOST = 1 << 62
ATTEMPT_MOST = 10_000
LABELS_MOST = 20
NUMBER_MOST = 1 << 62


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
    """One attempt of one workflow run that asks for nodes: whose jobs the nodes are for."""

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


def _of_workflow(request: ProvisionRequest, workflow: Workflow) -> None:
    if request.run != workflow.run:
        raise InvalidRequest("run", request.run, f"must be {workflow.run}, the run of its workflow")


WORKFLOW = RequestTable(name="workflow", kind=Workflow, runtime="github", rule=_of_workflow)
"""Whose jobs the nodes serve. They are given back when it is over, asked for or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedJob:
    """A job of a workflow that waits for a runner.

    Its runner serves one job, and GitHub may give it any job with these labels. So the request is bound to no
    run, and the end of a run takes nothing back.
    """

    repository: str
    run_id: int
    attempt: int
    job_id: int
    labels: tuple[str, ...]
    """What `runs-on` names, as it names them."""

    def __post_init__(self) -> None:
        repository("job.repository", self.repository)
        checks.whole("job.run_id", self.run_id, least=1, most=RUN_ID_MOST)
        checks.whole("job.attempt", self.attempt, least=1, most=ATTEMPT_MOST)
        checks.whole("job.job_id", self.job_id, least=1, most=RUN_ID_MOST)
        if not 1 <= len(self.labels) <= LABELS_MOST:
            raise InvalidRequest("job.labels", self.labels, f"must be 1 to {LABELS_MOST} labels")
        for each in self.labels:
            label("job.labels", each)

    @property
    def run(self) -> str:
        """The job as a run of Muster's."""
        return f"{run_name(self.repository, self.run_id, self.attempt)}/job-{self.job_id}"


def _of_job(request: ProvisionRequest, job: QueuedJob) -> None:
    if request.run != job.run:
        raise InvalidRequest("run", request.run, f"must be {job.run}, the run of its job")
    if WORKFLOW.name in request.tables:
        # A workflow may ask for runners of its own run. With a job's labels it would get jobs of others.
        raise InvalidRequest("job", "…", "must be left out of a request with a workflow")


JOB = RequestTable(name="job", kind=QueuedJob, runtime="github", rule=_of_job)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRunnerRequest:
    """One runner that a scale set is short of. It serves any one job that GitHub assigned to the set."""

    set: str
    number: int
    """Counts the runners that were asked for. Two replicas that ask for the same number get the same one."""

    def __post_init__(self) -> None:
        label("scale_set.set", self.set)
        checks.whole("scale_set.number", self.number, least=1, most=NUMBER_MOST)


def run_of(template: str) -> str:
    """Return the run that all runners of a template's scale set belong to."""
    return f"scale-set/{template}"


def key_of(template: str, number: int) -> str:
    """Return the idempotency key of a runner's provision."""
    return f"{RESERVED}scale-set/{template}/{number}"


def _of_set(request: ProvisionRequest, _: SetRunnerRequest) -> None:
    if request.run != run_of(request.template) or request.count != 1:
        rule = f"must be {run_of(request.template)} with a count of 1: Muster asks for runners of scale sets"
        raise InvalidRequest("run", request.run, rule)


SET_RUNNER = RequestTable(name="scale_set", kind=SetRunnerRequest, runtime="github", rule=_of_set)
