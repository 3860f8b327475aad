"""`muster jobs`: list the jobs that sources show, show one, or say why one waits."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import output
from muster.cli.connection import ask, calls, open_client
from muster.cli.durations import format_taken
from muster.cli.options import list_group, lists
from muster.domain import checks
from muster.domain.jobs import JobState

if TYPE_CHECKING:
    from muster.wire.jobs import Job, JobSource, JobsServed, JobSummary
    from muster.wire.operations import Why

app = list_group("List jobs that wait or run; show one, or see why it waits.")
State = Annotated[
    list[str] | None,
    typer.Option("--state", metavar="STATE", help="queued, running or completed. May be repeated."),
]
Limit = Annotated[int, typer.Option("--limit", min=1, max=500, help="How many, newest first.")]
Name = Annotated[str, typer.Argument(metavar="JOB", help="The job's id, such as github-29679449.")]


@lists(app)
def listed(*, state: State = None, limit: Limit = 50) -> None:
    """List jobs, newest first. Completed ones only with `--state completed`."""
    for each in state or ():
        checks.known("state", each, tuple(JobState))
    with open_client() as client:
        page = client.send(calls.jobs(state=state or (), limit=limit))
        figures = client.send(calls.job_summary())
    columns: output.Columns[Job] = (
        output.Column("JOB", lambda job: job.id),
        output.Column("STATE", lambda job: job.state, style=output.state_style),
        output.Column("REPOSITORY", lambda job: job.repository or None, cut=True),
        output.Column("NAME", lambda job: job.name or None, cut=True),
        output.Column("TEMPLATE", lambda job: job.template, cut=True),
        output.Column("NODE OR CAUSE", lambda job: job.why or job.node_id or job.operation_id, cut=True),
        output.Column("AGE", lambda job: output.age(job.queued_at or job.created_at), right=True),
    )
    document = {"items": page.items, "next": page.next, "summary": figures}
    output.show_table(document, page.items, columns, nothing="no jobs wait or run")
    if not output.wants_json():
        for line in _summary(figures):
            output.say(line)


def _summary(figures: "JobSummary") -> Iterator[str]:
    yield f"{figures.queued} queued, {figures.running} running; last hour: {_served(figures.hour)}"
    for group in figures.unserved:
        yield f"{group.count} not served: {group.text}; {group.advice}"
    for source in figures.sources:
        yield _source(source)


def _served(found: "JobsServed") -> str:
    if not found.started:
        return "no jobs started"
    warm = "" if found.warm_rate is None else f", {found.warm_rate:.0%} on warm nodes"
    waited = found.waited
    if waited is None:
        return f"{found.started} started{warm}"
    spread = f"{format_taken(waited.p50)} (p50), {format_taken(waited.p95)} (p95)"
    return f"{found.started} started, queued to running in {spread}{warm}"


def _source(source: "JobSource") -> str:
    most = "" if source.most is None else f" of {source.most}"
    counts = (
        f"{source.assigned} assigned, {source.running} running,"
        f" {source.registered}{most} runners ({source.busy} busy, {source.idle} idle)"
    )
    said = f" · {source.state}" if source.state else ""
    since = f" for {output.age(source.failing_since)}" if source.failing_since else ""
    trouble = f" · {source.problem}{since}" if source.problem else ""
    return (
        f"{source.source} {source.queue}".rstrip() + f": {counts}, {output.age(source.at)} ago{said}{trouble}"
    )


@app.command()
def show(name: Name) -> None:
    """Show a job: what its source said, which node runs it, or why none does."""
    job = ask(calls.job(name))
    output.show_facts(job, _facts(job))


def _facts(job: "Job") -> tuple[tuple[str, str], ...]:
    attempt = f" attempt {job.attempt}" if job.attempt is not None else ""
    warm = {True: " (from the pool)", False: " (new)", None: ""}[job.warm]
    return (
        ("job", job.id),
        ("state", f"{job.state} {job.result or ''}".rstrip()),
        ("name", job.name),
        ("repository", job.repository),
        ("run", f"{job.run}{attempt}" if job.run else ""),
        ("workflow", job.workflow),
        ("labels", ", ".join(job.labels)),
        ("queue", job.queue),
        ("queued", output.timestamp(job.queued_at)),
        ("started", output.timestamp(job.started_at)),
        ("completed", output.timestamp(job.completed_at)),
        ("waited", "" if job.waited_seconds is None else format_taken(job.waited_seconds)),
        ("template", job.template or ""),
        ("operation", job.operation_id or ""),
        ("node", f"{job.node_id}{warm}" if job.node_id else ""),
        ("runner", job.runner),
        ("unserved", job.why),
        ("advice", job.advice),
        ("interrupted", "its machine was lost while it ran" if job.interrupted else ""),
        ("asked for a re-run", output.timestamp(job.rerun_at)),
    )


@app.command()
def why(name: Name) -> None:
    """Say why a job waits: what holds it back, or how far its machine is."""
    with open_client() as client:
        job = client.send(calls.job(name))
        waits = job.state == JobState.QUEUED and job.operation_id is not None and job.unserved is None
        provision = client.send(calls.why(job.operation_id)) if waits and job.operation_id else None
        sources = client.send(calls.job_summary()).sources if job.queue else ()
    own = (job.source, job.queue)
    source = next((each for each in sources if (each.source, each.queue) == own), None)
    document = {"job": job, "provision": provision, "source": source}
    output.show(document, *_reasons(job, provision, source))


def _reasons(job: "Job", provision: "Why | None", source: "JobSource | None") -> Iterator[str]:
    if job.state == JobState.COMPLETED:
        yield f"{job.id} is over: {job.result or 'its result is unknown'}"
    elif job.state == JobState.RUNNING:
        yield f"{job.id} runs on {job.node_id or job.runner or 'a runner that is not ours'}"
    elif job.unserved:
        yield f"{job.id} has waited for {output.age(job.queued_at or job.created_at)}: {job.why}"
        yield f"  {job.advice}"
        if source is not None:
            yield f"  {_source(source)}"
    elif provision is None and source is not None:
        # Any free machine of the queue takes it: none is meant for this job alone.
        yield f"{job.id} has waited for {output.age(job.queued_at or job.created_at)} in {source.queue}"
        yield f"  {_source(source)}"
    elif provision is None:
        yield f"{job.id} waits to be looked at; Muster looks every few seconds"
    else:
        yield f"{job.id} waits for {job.operation_id}: {provision.waits_for}"
