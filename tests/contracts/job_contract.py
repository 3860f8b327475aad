"""The contract of the job store as code: every adapter runs it unchanged."""

import asyncio
from dataclasses import replace
from itertools import permutations

import pytest

from muster.domain import serialization
from muster.domain.errors import Conflict, NotFound
from muster.domain.events import Entity
from muster.domain.ids import AssignmentId, JobId, NodeId, OperationId
from muster.domain.job_figures import SourceCounts
from muster.domain.jobs import (
    OPEN_JOBS,
    Job,
    JobChange,
    JobResult,
    JobSighting,
    JobState,
    Unserved,
    placed,
    served,
    unserved,
)
from muster.ports.jobs import JobStore
from muster.ports.store import Store
from tests.contracts.store_contract.bookkeeping import whole_feed


def sighting(name: str = "1", state: JobState = JobState.QUEUED, **more: object) -> JobSighting:
    facts: dict[str, object] = {
        "repository": "acme/shop",
        "run": "77",
        "attempt": 1,
        "name": "build",
        "labels": ("muster", "linux"),
        "queued_at": 10.0,
        **more,
    }
    return JobSighting(id=JobId(f"forge-{name}"), source="forge", state=state, **facts)  # type: ignore[arg-type]  # named by tests


QUEUED = sighting()
RUNNING = sighting(
    state=JobState.RUNNING, started_at=14.0, runner="r-as-1", assignment_id=AssignmentId("as-1")
)
DONE = sighting(
    state=JobState.COMPLETED,
    started_at=14.0,
    completed_at=60.0,
    result=JobResult.SUCCEEDED,
    runner="r-as-1",
    assignment_id=AssignmentId("as-1"),
)


def content(job: Job) -> Job:
    """The job without the traces of how it was learnt."""
    return replace(job, version=0, created_at=0.0, updated_at=0.0)


class JobStoreContract:
    """An adapter gives `jobs` and, of the same store, `store`."""

    async def _noted(self, jobs: JobStore, *seen: JobSighting, now: float = 11.0) -> Job:
        return (await jobs.note(seen, now=now))[-1]

    async def test_sightings_in_any_order_and_number_give_the_same_job(self, jobs: JobStore) -> None:
        outcomes = []
        for number, order in enumerate(permutations([QUEUED, RUNNING, DONE, QUEUED, DONE], 5)):
            seen = [replace(each, id=JobId(f"forge-p{number}")) for each in order]
            for each in seen:
                await jobs.note([each], now=11.0)
            outcomes.append(replace(content(await jobs.job(seen[0].id)), id=JobId("forge-p")))
            if number == 23:
                break
        assert len({str(each) for each in outcomes}) == 1
        assert outcomes[0].state is JobState.COMPLETED
        assert outcomes[0].startup == 4.0

    async def test_a_repeated_sighting_writes_nothing(self, jobs: JobStore, store: Store) -> None:
        first = await self._noted(jobs, RUNNING)
        assert await self._noted(jobs, RUNNING, QUEUED, RUNNING, now=99.0) == first
        told = [each for each in await whole_feed(store) if each.entity is Entity.JOB]
        assert [(each.name, each.version) for each in told] == [("running", 1)]

    async def test_many_who_see_a_job_at_once_make_one(self, jobs: JobStore, store: Store) -> None:
        seen = [QUEUED, RUNNING, DONE] * 4
        await asyncio.gather(*(jobs.note([each], now=11.0) for each in seen))
        job = await jobs.job(QUEUED.id)
        assert (job.state, job.result, job.runner) == (JobState.COMPLETED, JobResult.SUCCEEDED, "r-as-1")
        told = [each for each in await whole_feed(store) if each.entity is Entity.JOB]
        assert [each.version for each in told] == list(range(1, job.version + 1))

    async def test_a_batch_answers_in_its_order(self, jobs: JobStore) -> None:
        names = ["b", "a", "c", "a"]
        found = await jobs.note([sighting(name) for name in names], now=1.0)
        assert [job.id for job in found] == [f"forge-{name}" for name in names]

    async def test_its_events_rebuild_the_job(self, jobs: JobStore, store: Store) -> None:
        job = await self._noted(jobs, QUEUED)
        job = await jobs.write(served(job, template="ci", operation_id=OperationId("op-1"), now=12.0))
        job = await self._noted(jobs, RUNNING)
        job = await jobs.write(
            placed(job, node_id=NodeId("node-1"), operation_id=OperationId("op-1"), warm=True, now=15.0)
        )
        folded: dict[str, object] = {}
        told = await whole_feed(store, entity_id=job.id)
        for event in told:
            folded.update(event.changes)
        assert folded == serialization.fields_to_plain(await jobs.job(job.id))
        assert [event.name for event in told] == ["queued", "served", "running", "placed"]
        assert told[-1].detail == "build of acme/shop ran on node-1"

    async def test_a_change_of_a_job_that_moved_is_refused(self, jobs: JobStore) -> None:
        job = await self._noted(jobs, QUEUED)
        change = unserved(job, Unserved.CAP, now=12.0)
        assert change is not None
        moved = await self._noted(jobs, RUNNING)
        with pytest.raises(Conflict):
            await jobs.write(change)
        with pytest.raises(Conflict):
            await jobs.write(JobChange(before=None, after=job, at=1.0, name="queued"))
        assert await jobs.job(job.id) == moved

    async def test_a_flag_that_is_unknown_stays_unknown(self, jobs: JobStore) -> None:
        job = await self._noted(jobs, QUEUED)
        assert (await jobs.job(job.id)).warm is None
        job = await jobs.write(placed(job, node_id=NodeId("n"), operation_id=None, warm=False, now=2.0))
        assert (await jobs.job(job.id)).warm is False

    async def test_a_missing_job_is_not_found(self, jobs: JobStore) -> None:
        with pytest.raises(NotFound):
            await jobs.job(JobId("forge-none"))

    async def test_jobs_are_listed_by_state_newest_first_in_pages(self, jobs: JobStore) -> None:
        for number in range(5):
            state = JobState.RUNNING if number == 2 else JobState.QUEUED
            await self._noted(jobs, sighting(str(number), state), now=float(number))
        await self._noted(jobs, sighting("9", JobState.COMPLETED), now=9.0)
        first = await jobs.jobs(states=OPEN_JOBS, limit=3)
        rest = await jobs.jobs(states=OPEN_JOBS, after=first.next, limit=3)
        assert [job.id for job in first.items] == ["forge-4", "forge-3", "forge-2"]
        assert [job.id for job in rest.items] == ["forge-1", "forge-0"]
        assert rest.next is None
        assert (await jobs.jobs(states=(), limit=3)).items == ()
        assert [job.id for job in await jobs.waiting(limit=2)] == ["forge-0", "forge-1"]
        assert len(await jobs.waiting(limit=9)) == 4
        assert await jobs.count(JobState.QUEUED) == 4
        assert await jobs.count(JobState.RUNNING) == 1

    async def test_jobs_of_a_run_are_those_of_its_repository(self, jobs: JobStore) -> None:
        await self._noted(jobs, sighting("1"), now=1.0)
        await self._noted(jobs, sighting("2", attempt=2), now=2.0)
        await self._noted(jobs, sighting("3", repository="acme/other"), now=3.0)
        await self._noted(jobs, sighting("4", run="78"), now=4.0)
        found = await jobs.of_run("acme/shop", "77", limit=10)
        assert [job.id for job in found] == ["forge-2", "forge-1"]
        assert [job.id for job in await jobs.of_run("acme/shop", "77", limit=1)] == ["forge-2"]

    async def test_the_newest_counts_of_a_queue_are_kept(self, jobs: JobStore) -> None:
        await jobs.note_counts(SourceCounts(source="forge", queue="b", at=5.0, assigned=3, most=7))
        await jobs.note_counts(SourceCounts(source="forge", queue="a", at=5.0))
        await jobs.note_counts(SourceCounts(source="forge", queue="b", at=4.0, assigned=9))
        found = await jobs.source_counts()
        assert [(each.queue, each.assigned, each.most) for each in found] == [("a", 0, None), ("b", 3, 7)]

    async def test_old_jobs_and_counts_are_pruned(self, jobs: JobStore, store: Store) -> None:
        old = await self._noted(jobs, sighting("1"), now=1.0)
        await self._noted(jobs, sighting("2"), now=50.0)
        await jobs.note_counts(SourceCounts(source="forge", queue="a", at=1.0))
        await jobs.note_counts(SourceCounts(source="forge", queue="b", at=50.0))
        await store.prune(before=20.0, limit=10)
        with pytest.raises(NotFound):
            await jobs.job(old.id)
        assert [job.id for job in (await jobs.jobs(states=OPEN_JOBS, limit=9)).items] == ["forge-2"]
        assert [each.queue for each in await jobs.source_counts()] == ["b"]
