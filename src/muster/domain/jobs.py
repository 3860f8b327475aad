"""A job: a piece of demand that Muster saw at a source, and what became of it.

There are two writers. An integration reports sightings of its source, and `merge` joins them. The same job
comes out of the same sightings, in any order and number. Muster's own facts (template, operation, node, why
the job waits) are guarded changes.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from muster.domain import checks
from muster.domain.errors import InvalidRequest
from muster.domain.ids import AssignmentId, JobId, NodeId, OperationId

TEXT_MOST = 256
LABELS_MOST = 100
ID_MOST = 120


class Unserved(StrEnum):
    """Why no machine is on its way to a queued job, or none could take it."""

    NO_TEMPLATE = "no_template"
    NOT_ALLOWED = "not_allowed"
    PAUSED = "paused"
    CAP = "cap"
    CAPACITY = "capacity"
    GROUP = "group"
    REGISTRATION = "registration"
    THROTTLED = "throttled"
    TAKEN = "taken"
    FAILED = "failed"
    INVALID = "invalid"
    SOURCE = "source"


CAUSES: dict[Unserved, tuple[str, str]] = {
    Unserved.NO_TEMPLATE: (
        "no template has its labels and serves its repository",
        "correct `runs-on`, or the labels or the scope in a template's runner table",
    ),
    Unserved.NOT_ALLOWED: (
        "its repository is not allowed",
        "add the repository to the allowed ones, if its jobs may run here",
    ),
    Unserved.PAUSED: ("its template is paused", "`muster resume` lets new machines start again"),
    Unserved.CAP: (
        "the cap on nodes is reached",
        "wait, release nodes, or raise max_nodes of the template or the installation",
    ),
    Unserved.CAPACITY: (
        "the provider has no machine for it",
        "allow more instance types or zones, or fall back to on-demand",
    ),
    Unserved.GROUP: (
        "its runner is online and the source gives it no job",
        "check that the runner group allows the repository, and that the runner has all labels",
    ),
    Unserved.REGISTRATION: (
        "its runner could not be registered",
        "check the credentials and rights that `muster doctor` names",
    ),
    Unserved.THROTTLED: (
        "the source limits how many runners may be registered per minute",
        "wait: Muster serves it within the limit",
    ),
    Unserved.TAKEN: (
        "another job took the runner that was made for it",
        "wait: Muster makes another one",
    ),
    Unserved.SOURCE: (
        "its source can't be reached, or refuses",
        "run `muster doctor`: it checks address, credentials and rights; Muster tries again by itself",
    ),
    Unserved.INVALID: (
        "no provision can be asked for it",
        "correct what is named: the labels of `runs-on`, or the template",
    ),
    Unserved.FAILED: ("its provision failed", "read why: `muster operations why OPERATION`"),
}
"""What to say of a cause, and what to do."""


class JobState(StrEnum):
    """In the order in which a job goes through them."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"


OPEN_JOBS = (JobState.QUEUED, JobState.RUNNING)
_RANKS = {state: rank for rank, state in enumerate(JobState)}


class JobResult(StrEnum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    TIMED_OUT = "timed_out"
    UNKNOWN = "unknown"
    """The source said a word that Muster doesn't know, or forgot the job."""


def job_id(source: str, name: str) -> JobId:
    """Return the id of a job: its source, and the source's own id. Raises InvalidRequest."""
    checks.text("job id", name, longest=ID_MOST)
    if not all(each.isascii() and (each.isalnum() or each in "-_.") for each in name):
        raise InvalidRequest("job id", name, "must consist of letters, digits, hyphens, dots and underscores")
    return JobId(f"{source}-{name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """What a source says of a job. What it didn't say is empty or None."""

    id: JobId
    source: str
    state: JobState
    repository: str = ""
    run: str = ""
    """The source's id of the run that the job belongs to. Unique together with the repository."""
    attempt: int | None = None
    name: str = ""
    workflow: str = ""
    event: str = ""
    """What started its run."""
    labels: tuple[str, ...] = ()
    queue: str = ""
    """Where it waits at the source, such as a scale set. Empty: it is known by its labels alone."""
    queued_at: float | None = None
    assigned_at: float | None = None
    """When the source gave it to the queue. A source may take it back and assign it anew: what was said under
    an earlier time no longer counts. Sources that never do so leave it None."""
    started_at: float | None = None
    completed_at: float | None = None
    result: JobResult | None = None
    runner: str = ""
    """What the source calls the runner that has the job."""
    assignment_id: AssignmentId | None = None
    """Under which assignment the runner's node works; None: not one of ours, or unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSighting(JobFacts):
    """What a source said at one time. Texts that are too long are cut."""

    def __post_init__(self) -> None:
        for field in ("repository", "run", "name", "workflow", "event", "queue", "runner"):
            object.__setattr__(self, field, getattr(self, field)[:TEXT_MOST])
        labels = tuple(each[:TEXT_MOST] for each in self.labels[:LABELS_MOST])
        object.__setattr__(self, "labels", labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(JobFacts):
    """A job as Muster knows it: all that was said of it, and what Muster did for it."""

    version: int = 1
    created_at: float
    """When Muster first heard of it."""
    updated_at: float
    template: str | None = None
    """Whose nodes serve it; None: none that Muster knows."""
    operation_id: OperationId | None = None
    """The provision that was made for it, or whose node runs it."""
    tries: int = 0
    """Provisions that were made for it."""
    node_id: NodeId | None = None
    """On which it runs or ran; None: none of ours, or not known yet."""
    warm: bool | None = None
    """Whether that node came from the pool."""
    unserved: Unserved | None = None
    detail: str = ""
    """More about why it is unserved."""
    interrupted: bool = False
    """Its machine was lost while it ran."""
    rerun_at: float | None = None
    """When Muster decided to ask for another run of its attempt's failed jobs. At most one job of an attempt
    carries it."""

    @property
    def waits_since(self) -> float:
        return self.assigned_at or self.queued_at or self.created_at

    @property
    def startup(self) -> float | None:
        """Return the seconds from queued to running; None: it never ran, or the times are unknown."""
        if self.started_at is None or (self.queued_at is None and self.assigned_at is None):
            return None
        return max(0.0, self.started_at - (self.queued_at or self.assigned_at or 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChange:
    """A guarded write. `before` None: a job that was not known."""

    before: Job | None
    after: Job
    at: float
    name: str
    detail: str = ""


class JobEvent(StrEnum):
    """Names of Muster's own changes in the event feed. Sightings are named by the state."""

    SERVED = "served"
    UNSERVED = "unserved"
    PLACED = "placed"
    """It is known which machine runs or ran it: the audit line."""
    INTERRUPTED = "interrupted"
    RERUN = "rerun"


# --- what the source says ----------------------------------------------------------------------------


def merge(job: Job | None, seen: JobSighting, *, now: float) -> JobChange | None:
    """Return the job with what was seen of it; None: nothing is new.

    A join: the outcome depends neither on the order of sightings nor on their number.
    """
    if job is None:
        after = replace(_first(seen, now), **_anew(seen))
        return JobChange(before=None, after=after, at=now, name=after.state.value)
    said = {name: max(getattr(job, name), getattr(seen, name)) for name in _SAID}
    times = {
        "attempt": _joined(max, job.attempt, seen.attempt),
        "queued_at": _joined(min, job.queued_at, seen.queued_at),
    }
    after = replace(job, **said, **times, **_progress(job, seen))
    if after == job:
        return None
    after = replace(after, version=job.version + 1, updated_at=now)
    if after.state is not JobState.QUEUED:
        after = replace(after, unserved=None, detail="")
    return JobChange(before=job, after=after, at=now, name=after.state.value)


_SAID = ("source", "repository", "run", "name", "workflow", "event", "labels", "queue")
"""Facts that don't change. Should a source contradict itself, the greater text counts, in any order."""


def _first(seen: JobSighting, now: float) -> Job:
    said = {name: getattr(seen, name) for name in (*_SAID, "attempt", "queued_at")}
    return Job(id=seen.id, state=seen.state, created_at=now, updated_at=now, **said)


def _progress(job: Job, seen: JobSighting) -> dict[str, Any]:
    known, told = job.assigned_at or 0.0, seen.assigned_at or 0.0
    if told < known:
        return {}
    if told > known:
        return {**_anew(seen), "node_id": None, "warm": None, "interrupted": False}
    runner = max((job.runner, job.assignment_id), (seen.runner, seen.assignment_id), key=_runner_order)
    return {
        "state": max(job.state, seen.state, key=_RANKS.__getitem__),
        "started_at": _joined(min, job.started_at, seen.started_at),
        "completed_at": _joined(max, job.completed_at, seen.completed_at),
        "result": _joined(max, job.result, seen.result),
        "runner": runner[0],
        "assignment_id": runner[1],
    }


def _anew(seen: JobSighting) -> dict[str, Any]:
    names = (
        "state",
        "assigned_at",
        "started_at",
        "completed_at",
        "result",
        "runner",
        "assignment_id",
    )
    return {name: getattr(seen, name) for name in names}


def _runner_order(found: tuple[str, AssignmentId | None]) -> tuple[str, str]:
    return found[0], found[1] or ""


def _joined(choose: Callable[..., Any], *values: Any) -> Any:
    known = [value for value in values if value is not None]
    return choose(known) if known else None


# --- what Muster does ---------------------------------------------------------------------------------


def served(job: Job, *, template: str, operation_id: OperationId, now: float) -> JobChange:
    """A provision was made for the job. What held it back stays said until a further try gets on."""
    tries = job.tries if job.operation_id == operation_id else job.tries + 1
    said = {} if job.tries else {"unserved": None, "detail": ""}
    return _changed(
        job, JobEvent.SERVED, now, template=template, operation_id=operation_id, tries=tries, **said
    )


def unserved(
    job: Job, cause: Unserved | None, *, detail: str = "", template: str | None = None, now: float
) -> JobChange | None:
    """Say why the job waits, or that nothing holds it back any more. None: that is known."""
    template = template or job.template
    if (job.unserved, job.detail, job.template) == (cause, detail[:TEXT_MOST], template):
        return None
    return _changed(
        job,
        JobEvent.UNSERVED,
        now,
        template=template,
        unserved=cause,
        detail=detail[:TEXT_MOST],
    )


def placed(
    job: Job,
    *,
    node_id: NodeId,
    operation_id: OperationId | None,
    warm: bool,
    now: float,
    template: str | None = None,
) -> JobChange:
    """It is known on which node the job runs or ran, and maybe of which template."""
    change = _changed(
        job,
        JobEvent.PLACED,
        now,
        node_id=node_id,
        operation_id=operation_id or job.operation_id,
        warm=warm,
        template=template or job.template,
    )
    words = f"{job.name or job.id} of {job.repository or job.source} ran on {node_id}"
    return replace(change, detail=words)


def interrupted(job: Job, *, now: float) -> JobChange:
    """The job's machine was lost while it ran."""
    return _changed(job, JobEvent.INTERRUPTED, now, interrupted=True)


def rerun(job: Job, *, detail: str, now: float) -> JobChange:
    """Muster is about to ask the source to run the failed jobs of this attempt again."""
    return replace(_changed(job, JobEvent.RERUN, now, rerun_at=now), detail=detail)


def _changed(job: Job, step: JobEvent, now: float, **facts: Any) -> JobChange:
    after = replace(job, version=job.version + 1, updated_at=now, **facts)
    return JobChange(before=job, after=after, at=now, name=step.value, detail=str(facts.get("detail", "")))
