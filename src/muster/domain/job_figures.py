"""Figures about jobs: what sources count themselves, how long jobs waited, what holds jobs back."""

from collections.abc import Sequence
from dataclasses import dataclass

from muster.domain.boot import Distribution, distribution
from muster.domain.ids import JobId
from muster.domain.job_causes import CAUSES, Unserved
from muster.domain.jobs import Job, JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCounts:
    """The counts that a source gives of one of its queues, as of a time."""

    source: str
    queue: str
    at: float
    scope: str = ""
    """Whose queue it is: an organisation, a repository or an enterprise."""
    template: str | None = None
    state: str = ""
    """How the listening goes, in a word or two: listening, waiting for the session of another listener …"""
    problem: str = ""
    """What an operator should know: the queue is refused, its labels were dropped."""
    available: int = 0
    assigned: int = 0
    """Waiting and running."""
    running: int = 0
    registered: int = 0
    busy: int = 0
    idle: int = 0
    least: int = 0
    most: int | None = None
    """Runners: how many are kept idle, how many there may be. None: no bound of its own."""
    desired: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UnservedGroup:
    cause: Unserved
    count: int
    oldest_since: float
    example: JobId

    @property
    def text(self) -> str:
        return CAUSES[self.cause][0]

    @property
    def advice(self) -> str:
        return CAUSES[self.cause][1]


def grouped(jobs: Sequence[Job]) -> tuple[UnservedGroup, ...]:
    """Return the causes that hold jobs back, that of the oldest job first."""
    groups: dict[Unserved, list[Job]] = {}
    for job in jobs:
        if job.unserved is not None and job.state is JobState.QUEUED:
            groups.setdefault(job.unserved, []).append(job)
    oldest = {cause: min(some, key=lambda job: (job.waits_since, job.id)) for cause, some in groups.items()}
    found = [
        UnservedGroup(
            cause=cause, count=len(some), oldest_since=oldest[cause].waits_since, example=oldest[cause].id
        )
        for cause, some in groups.items()
    ]
    return tuple(sorted(found, key=lambda group: (group.oldest_since, group.cause)))


def wait_of(jobs: Sequence[Job]) -> Distribution | None:
    """Return how long the jobs that started had waited, in seconds; None: none of them did."""
    return distribution([job.startup for job in jobs if job.startup is not None])


def warm_rate(jobs: Sequence[Job]) -> float | None:
    """Return the share of jobs on nodes from the pool; None: no job ran on a node that is known."""
    known = [job.warm for job in jobs if job.warm is not None]
    return sum(known) / len(known) if known else None
