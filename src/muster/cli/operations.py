"""`muster operations`: list, show, watch, cancel and explain operations."""

from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import exits, options, output, progress_views
from muster.cli.command_output import commands_of_run, decided_by_commands, exit_code, print_failures
from muster.cli.connection import ask, calls, find_operation, open_client
from muster.cli.durations import format_taken
from muster.cli.exits import OperationFailed
from muster.cli.operation_watch import Patience, watch_hint
from muster.cli.operation_watch import watch as watched
from muster.cli.options import list_group, lists
from muster.cli.progress_views import LOOKS, chip_name, time_left_text, where
from muster.domain import checks
from muster.domain.operation import ENDED, Kind, Status

if TYPE_CHECKING:
    from muster.wire.operations import Operation

app = list_group("List operations; show, watch or cancel one, or see why it waits or ended.")
Kinds = Annotated[
    str | None,
    typer.Option(
        "--kind", metavar="KIND", help="provision, release, refill, run, cluster_create or cluster_delete."
    ),
]
Statuses = Annotated[
    list[str] | None,
    typer.Option("--status", metavar="STATUS", help="Only in this status, e.g. running. May be repeated."),
]
OfRun = Annotated[str | None, typer.Option("--run", metavar="ID", help="Only of this run.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=500, help="How many, newest first.")]
Target = Annotated[
    str, typer.Argument(metavar="OPERATION|RUN", help="An operation's id; for a run, its newest operation.")
]


@lists(app)
def listed(
    *,
    kind: Kinds = None,
    status: Statuses = None,
    run: OfRun = None,
    limit: Limit = 20,
) -> None:
    """List operations, newest first."""
    if kind is not None:
        checks.known("kind", kind, tuple(Kind))
    for each in status or ():
        checks.known("status", each, tuple(Status))
    page = ask(calls.operations(kind=kind, status=status or (), run=run, limit=limit))
    columns: output.Columns[Operation] = (
        output.Column("OPERATION", lambda each: each.operation_id),
        output.Column("KIND", lambda each: each.kind),
        output.Column("STATUS", lambda each: each.status, style=output.state_style),
        output.Column("RUN", lambda each: each.run, cut=True),
        output.Column("STEP", _step, cut=True),
        output.Column("AGE", lambda each: output.age(each.started_at), right=True),
        output.Column("TOOK", lambda each: format_taken(each.elapsed_seconds), right=True),
    )
    output.show_table(page, page.items, columns, nothing="no operations yet")


def _step(operation: "Operation") -> str:
    if operation.error is not None:
        return f"{operation.error.code}: {operation.error.reason}"
    return f"{operation.step}/{operation.total_steps} {operation.label}" if operation.step else "-"


@app.command()
def show(target: Target) -> None:
    """Show an operation: its progress, or how it ended."""
    with open_client() as client:
        found = find_operation(client, target)
    error = found.error
    deadline = "" if found.ended else f"in {output.time_left(found.deadline_at)} ({found.deadline_source})"
    nodes = "\n".join(
        f"{LOOKS[part.tone][0]} {chip_name(part, full=True)} {part.state} {part.detail}".rstrip()
        for part in found.parts
    )
    output.show_facts(
        found,
        (
            ("operation", found.operation_id),
            ("kind", str(found.kind)),
            ("status", str(found.status)),
            ("step", where(found) if found.step else ""),
            ("message", found.message),
            ("error", f"{error.code} ({error.reason}): {error.message}" if error else ""),
            ("advice", error.advice if error and error.diagnosis is None else ""),
            ("diagnosis", "\n".join(exits.diagnosis_lines(error))),
            ("result", found.result),
            ("run", found.run or ""),
            ("template", found.template or ""),
            ("started", f"{output.timestamp(found.started_at)} ({output.age(found.started_at)} ago)"),
            ("took" if found.ended else "so far", format_taken(found.elapsed_seconds)),
            ("left", "" if found.ended else time_left_text(found.eta_seconds).removeprefix(" · ")),
            ("deadline", deadline),
            ("nodes", nodes or "\n".join(member.node_id for member in found.members)),
        ),
    )


@app.command()
def watch(target: Target, *, wait: options.Wait = None) -> None:
    """Watch an operation to its end. Its history is shown first; the exit code is its outcome.

    For a run, it is the worst exit code of its commands, as with `muster run`.
    """
    with open_client() as client:
        found = find_operation(client, target)
        view = progress_views.choose_view(elapsed=found.elapsed_seconds, stream=True)
        ended = watched(client, found, view, Patience(wait))
        commands = commands_of_run(client, ended) if ended.kind is Kind.RUN else []
    code = exit_code(ended, commands)
    if not decided_by_commands(ended):
        raise OperationFailed(ended, code)
    if not output.wants_json():
        said = f"{ended.label or 'done'}: {ended.message}" if ended.message else ended.label or "done"
        output.say(f"{'✖' if code else '✔'} {said} ({format_taken(ended.elapsed_seconds)})")
    print_failures(commands)
    raise typer.Exit(code)


@app.command()
def cancel(target: Target) -> None:
    """Stop an operation. If its nodes are handed over already, release it instead."""
    with open_client() as client:
        found = client.send(calls.cancel(find_operation(client, target).operation_id))
    asked = f"is asked to stop; {watch_hint(found.operation_id)}"
    output.show(found, f"✔ {found.operation_id} {f'is {found.status}' if found.ended else asked}")


@app.command()
def why(target: Target) -> None:
    """Show what an operation waits for, since when and until when; or why it ended."""
    with open_client() as client:
        found = client.send(calls.why(find_operation(client, target).operation_id))
        ended = client.send(calls.operation(found.operation_id)) if found.status in ENDED else None
    if ended is not None:
        examined = exits.diagnosis_lines(ended.error)
        output.show_facts(
            found,
            (
                ("operation", f"{ended.operation_id} ({ended.kind})"),
                ("status", str(ended.status)),
                ("because", found.because),
                ("advice", "" if ended.error is not None and ended.error.diagnosis else found.advice),
                ("diagnosis", "\n".join(examined)),
                (
                    "began",
                    f"{output.age(ended.started_at)} ago, and took {format_taken(ended.elapsed_seconds)}",
                ),
            ),
        )
        return
    output.show_facts(
        found,
        (
            ("operation", found.operation_id),
            ("status", str(found.status)),
            ("waits for", found.waits_for.removeprefix("waiting for ")),
            ("since", f"{output.age(found.since)} ago"),
            ("place in queue", "" if found.position is None else str(found.position)),
            ("until", f"{output.timestamp(found.until)} ({output.time_left(found.until)})"),
        ),
    )
