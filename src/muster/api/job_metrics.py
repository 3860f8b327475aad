"""Metrics of jobs: Muster's own, and beside them the `gha_` names that people already set alarms on.

Gauges come from the store. Counters and durations come from this process's writes. A job that was queued
before the process started is counted without its names.
"""

from collections.abc import Iterator, Mapping

from muster.api.prometheus import SECONDS, Counter, Histogram, Labels, gauge
from muster.domain.events import Draft
from muster.domain.job_figures import JobFigures, SourceCounts
from muster.domain.jobs import JobEvent
from muster.domain.serialization import Plain

REMEMBERED_MOST = 50_000
SERIES_MOST = 1000
"""Names of jobs come from outside: further ones are counted together."""
MANY = "(many)"
EXECUTED = (1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0, 21600.0)
_KEPT = ("repository", "name", "event", "queue", "template", "queued_at", "assigned_at", "started_at", "warm")


class JobMetrics:
    def __init__(self) -> None:
        self.completed = Counter("muster_jobs_completed_total", "Jobs that ended, by result.")
        self.started = Counter("muster_jobs_started_total", "Jobs that a runner took, by template.")
        self.placed = Counter("muster_jobs_placed_total", "Jobs on nodes from the pool or new.")
        self.interrupted = Counter("muster_jobs_interrupted_total", "Jobs whose machine was lost.")
        self.reruns = Counter("muster_job_reruns_total", "Runs whose failed jobs were asked for again.")
        self.waited = Histogram("muster_job_wait_seconds", "From queued to running.", SECONDS)
        self.gha_started = Counter("gha_started_jobs_total", "Jobs that started, by job.")
        self.gha_completed = Counter("gha_completed_jobs_total", "Jobs that completed, by job and result.")
        self.gha_startup = Histogram(
            "gha_job_startup_duration_seconds", "From assigned (or queued) to running.", SECONDS
        )
        self.gha_execution = Histogram(
            "gha_job_execution_duration_seconds", "From running to done.", EXECUTED
        )
        self._jobs: dict[str, dict[str, Plain]] = {}
        self._series: dict[tuple[str, str, str], bool] = {}

    def saw(self, draft: Draft) -> None:
        changes = draft.changes
        known = self._jobs.setdefault(draft.entity_id, {})
        known.update((name, value) for name, value in changes.items() if name in _KEPT)
        if changes.get("started_at") is not None:
            self._started(known)
        if draft.name == JobEvent.PLACED:
            self.placed.add(source="pool" if changes.get("warm") else "new")
        elif draft.name == JobEvent.INTERRUPTED:
            self.interrupted.add()
        elif draft.name == JobEvent.RERUN:
            self.reruns.add()
        if changes.get("completed_at") is not None:
            self._completed(known, changes)
        while len(self._jobs) > REMEMBERED_MOST:
            del self._jobs[next(iter(self._jobs))]

    def _started(self, job: Mapping[str, Plain]) -> None:
        names = self._names(job)
        self.started.add(template=str(job.get("template") or ""))
        self.gha_started.add(1.0, **names)
        _observe(self.waited, job.get("queued_at") or job.get("assigned_at"), job.get("started_at"), {})
        _observe(
            self.gha_startup, job.get("assigned_at") or job.get("queued_at"), job.get("started_at"), names
        )

    def _completed(self, job: Mapping[str, Plain], changes: Mapping[str, Plain]) -> None:
        result = str(changes.get("result") or "unknown")
        names = self._names(job)
        self.completed.add(result=result)
        named = {**names, "job_result": result}
        self.gha_completed.add(1.0, **named)
        _observe(self.gha_execution, job.get("started_at"), changes.get("completed_at"), named)

    def _names(self, job: Mapping[str, Plain]) -> dict[str, str]:
        owner, _, repository = str(job.get("repository") or "").partition("/")
        name = str(job.get("name") or "")
        series = (owner, repository, name)
        if series not in self._series and len(self._series) >= SERIES_MOST:
            owner, repository, name = MANY, MANY, MANY
        else:
            self._series[series] = True
        return {
            "repository": repository,
            "organization": owner,
            "enterprise": "",
            "job_name": name,
            "event_name": str(job.get("event") or ""),
        }

    def lines(self, seen: JobFigures, now: float) -> Iterator[Iterator[str]]:
        states = [({"state": "queued"}, seen.queued), ({"state": "running"}, seen.running)]
        yield gauge("muster_jobs", "Jobs that wait or run.", states)
        causes = [({"cause": each.cause.value}, each) for each in seen.unserved]
        yield gauge(
            "muster_jobs_unserved", "Queued jobs that are held back, by cause.",
            [(name, each.count) for name, each in causes],
        )  # fmt: skip
        yield gauge(
            "muster_jobs_unserved_oldest_seconds", "How long the oldest of them has waited.",
            [(name, now - each.oldest_since) for name, each in causes],
        )  # fmt: skip
        rate = seen.hour.warm_rate
        yield gauge(
            "muster_jobs_warm_rate", "The share of the last hour's jobs on nodes from the pool.",
            [] if rate is None else [({}, rate)],
        )  # fmt: skip
        yield from _sources(seen, now)
        own = (self.completed, self.started, self.placed, self.interrupted, self.reruns, self.waited)
        theirs = (self.gha_started, self.gha_completed, self.gha_startup, self.gha_execution)
        for figure in (*own, *theirs):
            yield figure.lines()


_GAUGES = (
    ("gha_assigned_jobs", "Jobs assigned to a queue, waiting and running.", "assigned"),
    ("gha_running_jobs", "Jobs that run.", "running"),
    ("gha_registered_runners", "Runners that are registered.", "registered"),
    ("gha_busy_runners", "Runners with a job.", "busy"),
    ("gha_idle_runners", "Runners without a job.", "idle"),
    ("gha_min_runners", "Runners that are kept idle.", "least"),
    ("gha_max_runners", "Runners that there may be.", "most"),
    ("gha_desired_runners", "Runners that there should be.", "desired"),
)


def _sources(seen: JobFigures, now: float) -> Iterator[Iterator[str]]:
    for name, description, field in _GAUGES:
        found = [(_queue(each), getattr(each, field)) for each in seen.sources]
        yield gauge(name, description, [(labels, value) for labels, value in found if value is not None])
    ages = [({"source": each.source, "queue": each.queue}, now - each.at) for each in seen.sources]
    yield gauge("muster_job_source_age_seconds", "Since a source last gave its counts.", ages)


def _queue(each: SourceCounts) -> Labels:
    first, _, rest = each.scope.partition("/")
    enterprise = rest if first == "enterprises" else ""
    return {
        "name": each.queue,
        "namespace": "",
        "repository": "" if enterprise else rest,
        "organization": "" if enterprise else first,
        "enterprise": enterprise,
    }


def _observe(figure: Histogram, since: Plain, until: Plain, labels: Mapping[str, str]) -> None:
    if isinstance(since, int | float) and isinstance(until, int | float):
        figure.observe(max(0.0, until - since), **labels)
