"""Read `workflow_job` events and jobs of the REST API as sightings. Only this module knows their fields."""

import hashlib
import hmac
from datetime import UTC, datetime

import msgspec

from muster.domain.errors import InvalidRequest
from muster.domain.jobs import JobResult, JobSighting, JobState, job_id
from muster.integrations.github.runners import WorkflowJob, assignment_of

SOURCE = "github"
AHEAD_MOST = 300.0
"""Seconds that GitHub's clock may be ahead of ours. A later time is taken for this."""
_PREFIX = "sha256="
_STATES = {
    "queued": JobState.QUEUED,
    "in_progress": JobState.RUNNING,
    "completed": JobState.COMPLETED,
}
_RESULTS = {
    "success": JobResult.SUCCEEDED,
    "failure": JobResult.FAILED,
    "cancelled": JobResult.CANCELLED,
    "skipped": JobResult.SKIPPED,
    "timed_out": JobResult.TIMED_OUT,
}


class _Repository(msgspec.Struct, frozen=True):
    full_name: str


class WorkflowJobEvent(msgspec.Struct, frozen=True, kw_only=True):
    action: str
    workflow_job: WorkflowJob
    repository: _Repository


_event = msgspec.json.Decoder(WorkflowJobEvent)


def is_signed(secret: bytes, body: bytes, signature: str) -> bool:
    """Return whether the signature header proves the body. Takes the same time for any wrong signature."""
    expected = hmac.new(secret, body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(f"{_PREFIX}{expected}".encode(), signature.encode("utf-8", "replace"))


def read_event(body: bytes) -> WorkflowJobEvent:
    """Return the event. Raises InvalidRequest."""
    try:
        return _event.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest("body", "…", f"must be a workflow_job event: {error}") from error


def state_of(job: WorkflowJob, *, action: str = "") -> JobState | None:
    """Return how far a job is. None: it waits for something else than a runner, such as an approval.

    The action of an event decides. But a `queued` event may be of a job whose status is `waiting`.
    """
    return _STATES.get(job.status if action in ("", "queued") else action)


def sighting(
    job: WorkflowJob, repository: str, state: JobState, *, installation_id: str, now: float, event: str = ""
) -> JobSighting:
    """Return what GitHub says of a job. A job without a runner has no start, whatever its fields say."""
    runner = job.runner_name or ""
    ran = state is not JobState.QUEUED and bool(job.runner_id or runner)
    over = state is JobState.COMPLETED
    return JobSighting(
        id=job_id(SOURCE, str(job.id)),
        source=SOURCE,
        state=state,
        repository=repository,
        run=str(job.run_id),
        attempt=job.run_attempt or 1,
        name=job.name,
        workflow=job.workflow_name or "",
        event=event,
        labels=job.labels,
        # Older servers don't say when a job was made. While it waits, they call that its start.
        queued_at=_seconds(job.created_at or (job.started_at if state is JobState.QUEUED else None), now),
        started_at=_seconds(job.started_at, now) if ran else None,
        completed_at=_seconds(job.completed_at, now) if over else None,
        result=_RESULTS.get(job.conclusion or "", JobResult.UNKNOWN) if over else None,
        runner=runner if ran else "",
        assignment_id=assignment_of(installation_id, runner) if ran else None,
    )


def _seconds(at: datetime | None, now: float) -> float | None:
    if at is None:
        return None
    return min((at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp(), now + AHEAD_MOST)
