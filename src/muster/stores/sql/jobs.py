"""Jobs and the counts of their sources, as the job store promises. Owns both tables."""

from collections.abc import Sequence
from functools import cache

from muster.domain import events as drafts
from muster.domain.ids import JobId
from muster.domain.job_figures import SourceCounts
from muster.domain.jobs import Job, JobChange, JobSighting, JobState, merge
from muster.ports.store import Cursor, Page
from muster.stores import cursors
from muster.stores.records import version_conflict
from muster.stores.sql import events, guards, statements
from muster.stores.sql.engines import EngineVerbs, read, write
from muster.stores.sql.rows import JOB, SOURCE_COUNTS
from muster.stores.sql.tx import Retry, Tx, Value

OF_RUN = f"""
    SELECT {JOB.select} FROM jobs WHERE repository = :repository AND run = :run
    ORDER BY created_at DESC, id DESC LIMIT :limit
"""
WAITING = f"""
    SELECT {JOB.select} FROM jobs WHERE state = 'queued' ORDER BY created_at, id LIMIT :limit
"""
COUNT = "SELECT count(*) FROM jobs WHERE state = :state"
_SETS = ", ".join(
    f"{name} = excluded.{name}" for name in SOURCE_COUNTS.columns if name not in ("source", "queue")
)
_KEEP = f"""
    {SOURCE_COUNTS.insert} ON CONFLICT (source, queue) DO UPDATE SET {_SETS}
    WHERE job_sources.at <= excluded.at
"""
_SOURCES = f"SELECT {SOURCE_COUNTS.select} FROM job_sources ORDER BY source, queue LIMIT 1000"


def _get(tx: Tx, job_id: JobId) -> Job:
    return JOB.get(tx, job_id)


def _note(tx: Tx, sightings: Sequence[JobSighting], *, now: float) -> Sequence[Job]:
    # In one order for all, so that two batches never wait for each other's rows.
    found: dict[JobId, Job] = {}
    for seen in sorted(sightings, key=lambda each: each.id):
        found[seen.id] = _noted(tx, seen, now)
    return [found[seen.id] for seen in sightings]


def _noted(tx: Tx, seen: JobSighting, now: float) -> Job:
    known = JOB.first(tx.execute(JOB.by_id + tx.locks.hold, {"id": seen.id}))
    change = merge(known, seen, now=now)
    if change is not None:
        _apply(tx, change)
        return change.after
    if known is None:
        raise AssertionError("a first sighting is always new")
    return known


def _write(tx: Tx, change: JobChange) -> Job:
    if change.before is None:
        raise version_conflict(change.after.id, 0)
    _apply(tx, change)
    return change.after


def _apply(tx: Tx, change: JobChange) -> None:
    if change.before is not None:
        guards.update(tx, JOB, change.before, change.after)
    elif not tx.change(f"{JOB.insert} ON CONFLICT DO NOTHING", JOB.params(change.after)):
        raise Retry(f"{change.after.id} was seen at the same moment")
    events.append(tx, drafts.of_job(change), at=change.at)


@cache
def listing(states: int, *, paged: bool) -> str:
    before = " AND (created_at, id) < (:created_at, :id)" if paged else ""
    wanted = [f"SELECT {JOB.select} FROM jobs WHERE state = :state{index}{before}" for index in range(states)]
    return statements.merge_queries(wanted, "created_at DESC, id DESC")


def _page(tx: Tx, *, states: Sequence[JobState], after: Cursor | None = None, limit: int) -> Page[Job]:
    wanted = tuple(dict.fromkeys(state.value for state in states))
    if not wanted:
        return Page(items=(), next=None)
    params: dict[str, Value] = {"limit": limit + 1, **statements.bind("state", wanted)}
    if after is not None:
        params["created_at"], params["id"] = cursors.decode("jobs", after, float, str)
    rows = tx.execute(listing(len(wanted), paged=after is not None), params)
    return cursors.page(JOB.all(rows), limit, "jobs")


def _waiting(tx: Tx, *, limit: int) -> Sequence[Job]:
    return JOB.all(tx.execute(WAITING, {"limit": limit}))


def _of_run(tx: Tx, repository: str, run: str, *, limit: int) -> Sequence[Job]:
    return JOB.all(tx.execute(OF_RUN, {"repository": repository, "run": run, "limit": limit}))


def _count(tx: Tx, state: JobState) -> int:
    count: int = tx.execute(COUNT, {"state": state.value})[0][0]
    return count


def _note_counts(tx: Tx, counts: SourceCounts) -> None:
    tx.change(_KEEP, SOURCE_COUNTS.params(counts))


def _source_counts(tx: Tx) -> Sequence[SourceCounts]:
    # Its first column alone is no key, so rows are built anew.
    return [SOURCE_COUNTS.build(row) for row in tx.execute(_SOURCES)]


class SqlJobs(EngineVerbs):
    """Implements muster.ports.jobs.JobStore."""

    note = write(_note)
    note_counts = write(_note_counts)
    write = write(_write)
    job = read(_get)
    jobs = read(_page)
    waiting = read(_waiting)
    of_run = read(_of_run)
    count = read(_count)
    source_counts = read(_source_counts)
