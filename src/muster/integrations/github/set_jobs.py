"""What messages of a scale set say of jobs, as the job model knows them."""

from collections.abc import Iterable, Iterator

from muster.domain.errors import InvalidRequest
from muster.domain.jobs import JobResult, JobSighting, JobState, job_id
from muster.integrations.github.runners import assignment_of
from muster.integrations.github.scale_set_shapes import (
    ASSIGNED,
    AVAILABLE,
    COMPLETED,
    STARTED,
    JobEntry,
    Statistics,
    time_of,
)

SOURCE = "github"
_STATES = {
    AVAILABLE: JobState.QUEUED,
    ASSIGNED: JobState.QUEUED,
    STARTED: JobState.RUNNING,
    COMPLETED: JobState.COMPLETED,
}
_RESULTS = {
    "succeeded": JobResult.SUCCEEDED,
    "succeededwithissues": JobResult.SUCCEEDED,
    "failed": JobResult.FAILED,
    "abandoned": JobResult.FAILED,
    "canceled": JobResult.CANCELLED,
    "cancelled": JobResult.CANCELLED,
    "skipped": JobResult.SKIPPED,
}


def sightings(entries: Iterable[JobEntry], *, queue: str, installation_id: str) -> Iterator[JobSighting]:
    """Yield what the entries say. Entries of unknown kinds, and jobs without a usable id, are left out."""
    for entry in entries:
        state = _STATES.get(entry.message_type)
        if state is None:
            continue
        try:
            found = job_id(SOURCE, entry.job_id or f"request-{entry.runner_request_id}")
        except InvalidRequest:
            continue
        runner = entry.runner_name or ""
        yield JobSighting(
            id=found,
            source=SOURCE,
            state=state,
            repository=f"{entry.owner_name}/{entry.repository_name}".strip("/"),
            run=str(entry.workflow_run_id or ""),
            name=entry.job_display_name,
            workflow=entry.job_workflow_ref,
            event=entry.event_name,
            labels=entry.request_labels,
            queue=queue,
            queued_at=time_of(entry.queue_time),
            assigned_at=time_of(entry.scale_set_assign_time),
            started_at=time_of(entry.runner_assign_time),
            completed_at=time_of(entry.finish_time),
            result=_result(entry) if state is JobState.COMPLETED else None,
            runner=runner,
            assignment_id=assignment_of(installation_id, runner),
        )


def _result(entry: JobEntry) -> JobResult:
    return _RESULTS.get((entry.result or "").lower(), JobResult.UNKNOWN)


def believable(said: Statistics, entries: Iterable[JobEntry]) -> bool:
    """Return whether the statistics go with the entries beside them.

    GitHub was seen to send zeros beside jobs that it just assigned.
    """
    ended = {entry.job_id for entry in entries if entry.message_type == COMPLETED}
    alive = any(entry.message_type in (ASSIGNED, STARTED) and entry.job_id not in ended for entry in entries)
    return not alive or said.total_assigned_jobs > 0
