"""Decide whether a run with interrupted jobs is run again. Pure.

Asking GitHub for the failed jobs of a run repeats every failed job. So Muster asks only if no other job
failed, or for the one interrupted job alone. A run that a person cancelled stays cancelled.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from muster.domain.jobs import Job
from muster.integrations.github.runners import RunStatus, WorkflowJob, WorkflowRun

FAILED = ("failure", "timed_out")


@dataclass(frozen=True, slots=True)
class Wait:
    """The run isn't over."""


@dataclass(frozen=True, slots=True)
class Never:
    why: str


@dataclass(frozen=True, slots=True)
class RerunFailed:
    """Ask once for all failed jobs: all of them were interrupted."""

    jobs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RerunJob:
    """Ask for the one interrupted job: others failed by themselves."""

    job: int


Decision = Wait | Never | RerunFailed | RerunJob


def used(jobs: Sequence[Job]) -> int:
    """Return how many re-runs Muster asked for, of all attempts of a run."""
    return sum(job.rerun_at is not None for job in jobs)


def decide(
    run: WorkflowRun | None,
    interrupted: Collection[Job],
    listed: Sequence[WorkflowJob],
    *,
    budget: int,
    spent: int,
) -> Decision:
    """Decide about one attempt. `listed`: the jobs of the run's latest attempt, as GitHub has them."""
    if run is None:
        return Never("GitHub does not show the run")
    attempts = {job.attempt for job in interrupted if job.attempt is not None}
    if attempts and run.attempt > max(attempts):
        return Never(f"attempt {run.attempt} has begun")
    if run.status is not RunStatus.COMPLETED:
        return Wait()
    if run.conclusion not in FAILED:
        return Never(f"the run ended with {run.conclusion or 'no conclusion'}")
    names = {job.runner for job in interrupted if job.runner}
    failed = [job for job in listed if job.conclusion in FAILED]
    ours = tuple(job.id for job in failed if (job.runner_name or "") in names)
    if not ours:
        return Never("no interrupted job failed")
    if spent >= budget:
        return Never(f"it was run again {spent} times, as often as rerun_interrupted allows")
    if len(ours) == len(failed):
        return RerunFailed(ours)
    if len(ours) == 1:
        return RerunJob(ours[0])
    return Never(f"{len(failed) - len(ours)} other jobs of the run failed by themselves")
