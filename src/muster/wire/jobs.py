"""Jobs: what Muster saw at their sources, what it did for them, and how that goes."""

from collections.abc import Sequence
from typing import Annotated, Any, Self

from msgspec import Meta

from muster.domain import job_figures, jobs
from muster.domain import jobs as domain
from muster.domain.jobs import CAUSES, JobState
from muster.wire.base import EXAMPLE_TIME, PageQuery, Shape, Spread, Time, convert

ResultWord = Annotated[str, Meta(extra_json_schema={"enum": [*domain.JobResult]})]
CauseWord = Annotated[str, Meta(extra_json_schema={"enum": [*jobs.Unserved]})]
"""Words: a newer server may have more of them."""


class JobsQuery(PageQuery):
    state: Annotated[tuple[JobState, ...], Meta(max_length=len(JobState))] = ()
    """None: those that are queued or running."""


JOB_EXAMPLE: dict[str, Any] = {
    "id": "github-29679449",
    "source": "github",
    "state": "queued",
    "version": 2,
    "created_at": EXAMPLE_TIME,
    "updated_at": EXAMPLE_TIME,
    "repository": "acme/shop",
    "run": "289782451",
    "attempt": 1,
    "name": "test (3.12)",
    "labels": ["muster-linux/xlarge/spot"],
    "queued_at": EXAMPLE_TIME,
    "template": "muster-linux",
    "operation_id": "op-1hx2k9q0c7m3t8v5e1",
    "tries": 1,
    "unserved": None,
}


class Job(Shape):
    EXAMPLE = JOB_EXAMPLE

    id: str
    """Its source, and the source's own id."""
    source: str
    state: JobState
    version: int
    created_at: Time
    """When Muster first heard of it."""
    updated_at: Time
    repository: str = ""
    run: str = ""
    attempt: int | None = None
    name: str = ""
    workflow: str = ""
    event: str = ""
    labels: tuple[str, ...] = ()
    queue: str = ""
    """Where it waits at the source, such as a scale set."""
    queued_at: Time | None = None
    assigned_at: Time | None = None
    started_at: Time | None = None
    completed_at: Time | None = None
    result: ResultWord | None = None
    runner: str = ""
    template: str | None = None
    operation_id: str | None = None
    tries: int = 0
    """Provisions that were made for it."""
    node_id: str | None = None
    warm: bool | None = None
    """Whether its node came from the pool; null: not known."""
    unserved: CauseWord | None = None
    """Why it is not served."""
    detail: str = ""
    why: str = ""
    """The same in words, with the detail."""
    advice: str = ""
    interrupted: bool = False
    """Its machine was lost while it ran."""
    rerun_at: Time | None = None
    """When Muster asked its source to run the failed jobs of its attempt again."""
    waited_seconds: float | None = None
    """From queued to running."""

    @classmethod
    def of(cls, job: domain.Job, sources: Sequence[job_figures.SourceCounts] = ()) -> Self:
        """`sources`: what each source says of its queues, one of which may hold the job back."""
        job = job_figures.with_source(job, sources)
        words, advice = CAUSES[job.unserved] if job.unserved is not None else ("", "")
        why = f"{words} ({job.detail})" if words and job.detail else words
        return convert(cls, job, why=why, advice=advice, waited_seconds=job.startup)


class JobsServed(Shape):
    started: int
    waited: Spread | None = None
    """Seconds from queued to running."""
    warm_rate: float | None = None
    """The share on nodes from the pool; null: none ran on a node that is known."""

    @classmethod
    def of(cls, found: job_figures.Served) -> Self:
        rate = None if found.warm_rate is None else round(found.warm_rate, 4)
        return convert(cls, found, waited=Spread.of(found.waited), warm_rate=rate)


class UnservedJobs(Shape):
    cause: CauseWord
    text: str
    advice: str
    count: int
    oldest_since: Time
    example: str
    """The id of the oldest."""


class JobSource(Shape):
    """What a source counts itself, of one of its queues."""

    source: str
    queue: str
    at: Time
    scope: str = ""
    template: str | None = None
    state: str = ""
    problem: str = ""
    failing_since: Time | None = None
    """Since when it can't be reached, or refuses; null: it answers."""
    available: int = 0
    assigned: int = 0
    """Waiting and running."""
    running: int = 0
    registered: int = 0
    busy: int = 0
    idle: int = 0
    least: int = 0
    most: int | None = None
    desired: int = 0


class JobSummary(Shape):
    EXAMPLE = {
        "queued": 3,
        "running": 12,
        "unserved": [
            {
                "cause": "cap",
                "text": CAUSES[jobs.Unserved.CAP][0],
                "advice": CAUSES[jobs.Unserved.CAP][1],
                "count": 3,
                "oldest_since": EXAMPLE_TIME,
                "example": "github-29679449",
            }
        ],
        "more": False,
        "hour": {"started": 140, "waited": {"count": 140, "p50": 3.1, "p95": 41.0}, "warm_rate": 0.93},
        "day": {"started": 900, "waited": {"count": 900, "p50": 3.4, "p95": 44.0}, "warm_rate": 0.9},
        "served_more": False,
        "sources": [],
    }

    queued: int
    running: int
    unserved: tuple[UnservedJobs, ...]
    """Causes that hold queued jobs back, that of the oldest job first."""
    more: bool
    """There are more queued jobs than were looked at."""
    hour: JobsServed
    day: JobsServed
    served_more: bool
    """More jobs started in the day than were looked at."""
    sources: tuple[JobSource, ...]

    @classmethod
    def of(cls, found: job_figures.JobFigures) -> Self:
        return convert(cls, found, hour=JobsServed.of(found.hour), day=JobsServed.of(found.day))
