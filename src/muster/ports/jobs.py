"""Jobs in the store. The general contract of `ports.store` holds."""

from collections.abc import Sequence
from typing import Protocol

from muster.domain.ids import JobId
from muster.domain.job_figures import SourceCounts
from muster.domain.jobs import Job, JobChange, JobSighting, JobState
from muster.ports.store import Cursor, Page
from muster.ports.verbs import reads, writes


class JobStore(Protocol):
    @writes
    async def note(self, sightings: Sequence[JobSighting], *, now: float) -> Sequence[Job]:
        """Merge what was seen into the jobs (`domain.jobs.merge`); return each job as it is then, in order.

        May be repeated and reordered at will. A sighting that says nothing new writes nothing. Each one is
        whole; together they need not be.
        """
        ...

    @writes
    async def write(self, change: JobChange) -> Job:
        """Write a change of a known job. Raises Conflict if the job moved since it was read."""
        ...

    @reads
    async def job(self, job_id: JobId) -> Job:
        """Return a job. Raises NotFound."""
        ...

    @reads
    async def jobs(self, *, states: Sequence[JobState], after: Cursor | None = None, limit: int) -> Page[Job]:
        """Return jobs in any of the states, newest first."""
        ...

    @reads
    async def waiting(self, *, limit: int) -> Sequence[Job]:
        """Return queued jobs, oldest first."""
        ...

    @reads
    async def of_run(self, repository: str, run: str, *, limit: int) -> Sequence[Job]:
        """Return the jobs of all attempts of a run, newest first."""
        ...

    @reads
    async def count(self, state: JobState) -> int: ...

    @writes
    async def note_counts(self, counts: SourceCounts) -> None:
        """Keep a source's own counts of a queue, unless newer ones are kept. Tells no event."""
        ...

    @reads
    async def source_counts(self) -> Sequence[SourceCounts]:
        """Return the last counts of each queue, by source and queue."""
        ...
