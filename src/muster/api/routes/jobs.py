"""Jobs: listed, shown, counted. Their integrations write them; no route does."""

from muster.api.access import Access
from muster.api.context import Ctx
from muster.api.router import Route, Table
from muster.domain.ids import JobId
from muster.domain.jobs import OPEN_JOBS
from muster.ports.store import Cursor
from muster.wire.base import Page
from muster.wire.jobs import Job, JobsQuery, JobSummary


async def listed(ctx: Ctx, asked: JobsQuery) -> Page[Job]:
    """List jobs, newest first; completed ones only if they are asked for."""
    page = await ctx.ports.jobs.jobs(
        states=asked.state or OPEN_JOBS,
        after=Cursor(asked.cursor) if asked.cursor is not None else None,
        limit=asked.limit,
    )
    sources = await ctx.ports.jobs.source_counts()
    return Page(items=tuple(Job.of(job, sources) for job in page.items), next=page.next)


async def summary(ctx: Ctx) -> JobSummary:
    """Count jobs: waiting, running, why some are not served, how long they waited, what sources count."""
    return JobSummary.of((await ctx.overview()).jobs)


async def show(ctx: Ctx, job_id: str) -> Job:
    """Show a job: what its source said, which node runs it, or why none does."""
    job = await ctx.ports.jobs.job(JobId(job_id))
    return Job.of(job, await ctx.ports.jobs.source_counts())


TABLE = Table(
    "jobs",
    (
        Route("GET", "/jobs", Access.VIEWER, listed),
        Route("GET", "/jobs/summary", Access.VIEWER, summary),
        Route("GET", "/jobs/{job_id}", Access.VIEWER, show),
    ),
)
