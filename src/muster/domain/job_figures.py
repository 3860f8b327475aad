"""Figures about jobs: what sources count themselves, how long jobs waited, what holds jobs back."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from muster.domain.boot import Distribution, distribution
from muster.domain.ids import JobId
from muster.domain.jobs import CAUSES, Job, JobState, Unserved


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
    failing_since: float | None = None
    """Since when the source can't be reached, or refuses. `problem` says how. None: it answers."""
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


_OF_SOURCE = (None, Unserved.SOURCE, Unserved.REGISTRATION)
"""Of jobs without a word, or whose runner could not be registered, a failing source is the cause."""


def with_source(job: Job, sources: Sequence[SourceCounts]) -> Job:
    """Return a queued job with what holds its source back, unless the cause is known to be another one."""
    if job.state is not JobState.QUEUED or job.unserved not in _OF_SOURCE:
        return job
    for each in sources:
        if (each.source, each.queue) == (job.source, job.queue) and each.failing_since is not None:
            detail = f"{each.source}, since {_moment(each.failing_since)}: {each.problem}"
            return replace(job, unserved=Unserved.SOURCE, detail=detail)
    return job


def _moment(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """How jobs that started in some time were served."""

    started: int = 0
    waited: Distribution | None = None
    """Seconds from queued to running; None: no job started, or the source gave no times."""
    warm_rate: float | None = None
    """The share on nodes from the pool; None: no job ran on a node that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFigures:
    """All jobs at one look."""

    queued: int = 0
    running: int = 0
    unserved: tuple[UnservedGroup, ...] = ()
    """Of the oldest queued jobs."""
    more: bool = False
    """There are more queued jobs than were looked at."""
    hour: Served = Served()
    day: Served = Served()
    served_more: bool = False
    """More jobs started in the day than were looked at."""
    sources: tuple[SourceCounts, ...] = ()


def served(jobs: Sequence[Job], *, since: float) -> Served:
    """Return how the jobs were served that started at or after a time."""
    started = [job for job in jobs if job.started_at is not None and job.started_at >= since]
    waits = [job.startup for job in started if job.startup is not None]
    known = [job.warm for job in started if job.warm is not None]
    return Served(
        started=len(started),
        waited=distribution(waits),
        warm_rate=sum(known) / len(known) if known else None,
    )
