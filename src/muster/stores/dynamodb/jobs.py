"""Jobs and the counts of their sources, as the job store promises. Owns those items."""

from collections.abc import Sequence
from contextlib import aclosing
from functools import partial

from muster.domain import events as drafts
from muster.domain.ids import JobId
from muster.domain.job_figures import SourceCounts
from muster.domain.jobs import Job, JobChange, JobSighting, JobState, merge
from muster.ports.store import Cursor, Page
from muster.stores import cursors
from muster.stores.dynamodb import keys
from muster.stores.dynamodb.feed import Feed
from muster.stores.dynamodb.table import Table, gather_bounded, newest
from muster.stores.dynamodb.values import Item, Key, key_of, moment, number, record, restored
from muster.stores.dynamodb.writes import ABSENT, Write, again, version_conflict
from muster.stores.records import version_conflict as moved


class DynamoJobs:
    """Implements muster.ports.jobs.JobStore; see there for what each verb promises."""

    def __init__(self, table: Table, feed: Feed) -> None:
        self._table = table
        self._feed = feed

    async def note(self, sightings: Sequence[JobSighting], *, now: float) -> Sequence[Job]:
        by_job: dict[JobId, list[JobSighting]] = {}
        for seen in sightings:
            by_job.setdefault(seen.id, []).append(seen)
        work = [partial(self._note_job, some, now) for some in by_job.values()]
        found = {job.id: job for job in await gather_bounded(work)}
        return [found[seen.id] for seen in sightings]

    async def _note_job(self, sightings: Sequence[JobSighting], now: float) -> Job:
        """Merge the sightings of one job, one after the other."""
        noted: Job | None = None
        for seen in sightings:
            noted = await self._table.repeated(partial(self._noted, seen, now))
        if noted is None:
            raise AssertionError("a job is noted by its sightings")
        return noted

    async def _noted(self, seen: JobSighting, now: float) -> Job:
        known = await self._table.record(Job, keys.job(seen.id))
        change = merge(known, seen, now=now)
        if change is None and known is not None:
            return known
        if change is None:
            raise AssertionError("a first sighting is always new")
        write = Write()
        if known is None:
            write.put(keys.job(seen.id), _item(change.after), where=ABSENT, refused=again(seen.id))
        else:
            write.put(
                keys.job(seen.id),
                _item(change.after),
                where="#v = :expected",
                values={"expected": known.version},
                refused=again(seen.id),
            )
        return await self._commit(write, change)

    async def write(self, change: JobChange) -> Job:
        before = change.before
        if before is None:
            raise moved(change.after.id, 0)
        write = Write()
        write.put(
            keys.job(before.id),
            _item(change.after),
            where="#v = :expected",
            values={"expected": before.version},
            refused=version_conflict(before.id, before.version),
        )
        return await self._commit(write, change)

    async def _commit(self, write: Write, change: JobChange) -> Job:
        write.tell(drafts.of_job(change), at=change.at)
        await self._feed.commit(write)
        return change.after

    async def job(self, job_id: JobId) -> Job:
        return restored(Job, await self._table.found(keys.job(job_id), "job", job_id))

    async def jobs(self, *, states: Sequence[JobState], after: Cursor | None = None, limit: int) -> Page[Job]:
        wanted = tuple(dict.fromkeys(states))

        def read(item: Item) -> Job | None:
            job = restored(Job, item)
            return job if job.state in wanted else None

        return await newest(
            self._table, [_listed(each) for each in wanted], read, kind="jobs", after=after, limit=limit
        )

    async def waiting(self, *, limit: int) -> Sequence[Job]:
        found: list[Job] = []
        walk = self._table.walk(_listed(JobState.QUEUED), index="listed", page=limit)
        async with aclosing(walk) as items:
            async for item in items:
                job = restored(Job, item)
                if job.state is JobState.QUEUED:
                    found.append(job)
                if len(found) == limit:
                    break
        return found

    async def of_run(self, repository: str, run: str, *, limit: int) -> Sequence[Job]:
        listed = await self._table.query(_run(repository, run), index="scoped", forward=False, most=limit)
        names = [key_of(item) for item in listed]
        items = await self._table.get_many(names)
        return [restored(Job, items[name]) for name in names if name in items]

    async def count(self, state: JobState) -> int:
        return await self._table.count(_listed(state), index="listed")

    async def note_counts(self, counts: SourceCounts) -> None:
        await self._table.update(
            keys.job_source(counts.source, counts.queue),
            "SET #d = :d, #at = :at",
            where=f"{ABSENT} OR #at <= :at",
            values={"d": record(counts), "at": counts.at},
        )

    async def source_counts(self) -> Sequence[SourceCounts]:
        return [restored(SourceCounts, item) for item in await self._table.query(keys.JOB_SOURCES, most=1000)]

    async def forget(self, item: Item) -> bool:
        job = restored(Job, item)
        write = Write()
        write.delete(keys.job(job.id), where="#v = :v", values={"v": job.version}, refused=again(job.id))
        await self._feed.commit(write)
        return True

    async def forget_sources(self, *, before: float) -> None:
        kept = await self._table.query(keys.JOB_SOURCES, most=1000)
        old: list[Key] = [key_of(item) for item in kept if (number(item, "at") or 0.0) < before]
        await self._table.delete(old)


def _listed(state: JobState) -> str:
    return f"JOBS#{state.value}"


def _run(repository: str, run: str) -> str:
    return f"JOBS#{repository}#{run}"


def _item(job: Job) -> Item:
    return {
        "v": job.version,
        "d": record(job),
        "lp": _listed(job.state),
        "ls": moment(*cursors.age(job)),
        "sp": _run(job.repository, job.run) if job.run else None,
        "ss": moment(*cursors.age(job)) if job.run else None,
        "tp": keys.JOBS_UPDATED,
        "ts": moment(job.updated_at, job.id),
    }
