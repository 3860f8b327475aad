"""A job of a workflow that waits for a runner, as a provision request names it.

Its runner serves one job, and GitHub may give it any job with these labels. So the request is bound to no
run, and the end of a run takes nothing back.
"""

from dataclasses import dataclass

from muster.config.tables import RequestTable
from muster.domain import checks
from muster.domain.errors import InvalidRequest
from muster.domain.requests import ProvisionRequest
from muster.integrations.github.workflow import (
    ATTEMPT_MOST,
    RUN_ID_MOST,
    WORKFLOW,
    label,
    repository,
    run_name,
)

LABELS_MOST = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedJob:
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


def _alone(request: ProvisionRequest, job: QueuedJob) -> None:
    if request.run != job.run:
        raise InvalidRequest("run", request.run, f"must be {job.run}, the run of its job")
    if WORKFLOW.name in request.tables:
        # A workflow may ask for runners of its own run. With a job's labels it would get jobs of others.
        raise InvalidRequest("job", "…", "must be left out of a request with a workflow")


JOB = RequestTable(name="job", kind=QueuedJob, runtime="github", rule=_alone)
