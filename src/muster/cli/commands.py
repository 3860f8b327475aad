"""`muster commands`: list, show and cancel the commands of a run."""

from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import output
from muster.cli.command_output import describe_end
from muster.cli.connection import ask, calls, is_command, is_operation, open_client
from muster.cli.options import list_group, lists
from muster.domain.errors import NotFound
from muster.domain.operation import Kind
from muster.domain.text import counted

if TYPE_CHECKING:
    from muster.client import SyncClient
    from muster.wire.commands import Command

_PAGE = 500
app = list_group("List the commands of runs; show or cancel one.")
OfRun = Annotated[
    str | None, typer.Option("--run", metavar="RUN|OPERATION", help="Only of this run, or operation.")
]
Limit = Annotated[int, typer.Option("--limit", min=1, max=500, help="How many, newest first.")]
Target = Annotated[str, typer.Argument(metavar="COMMAND", help="A command's id, e.g. cmd-….0.")]


@lists(app)
def listed(*, run: OfRun = None, limit: Limit = 20) -> None:
    """List commands, newest first."""
    with open_client() as client:
        if run is None:
            found = client.send(calls.commands(limit=limit)).items
        else:
            found = tuple(reversed(of_target(client, run)))[:limit]
    columns: output.Columns[Command] = (
        output.Column("COMMAND", lambda each: each.id),
        output.Column("STATE", _state, style=output.state_style),
        output.Column("RUN", lambda each: each.run, cut=True),
        output.Column("NODE", lambda each: each.node_id),
        output.Column("AGE", lambda each: output.age(each.created_at), right=True),
        output.Column("ARGV", _typed, cut=True),
    )
    output.show_table({"items": found}, found, columns, nothing="no commands yet")


def of_target(client: "SyncClient", target: str) -> "list[Command]":
    """Return one command, or all commands of a run or an operation, oldest first."""
    if is_command(target):
        return [client.send(calls.command(target))]
    found: tuple[Command, ...]
    if not is_operation(target):
        found = client.send(calls.commands(run=target, limit=_PAGE)).items
    else:
        operation = client.send(calls.operation(target))
        if operation.kind is Kind.RUN:
            found = client.send(calls.commands(run=operation.run, limit=_PAGE)).items
            found = tuple(command for command in found if command.id.startswith(f"{target}."))
        else:
            found = client.send(calls.commands(operation_id=target)).items
    return sorted(found, key=lambda each: (each.created_at, each.ordinal))


def _state(command: "Command") -> str:
    if command.ended:
        return f"{command.state} {command.exit_status}"
    return "cancelling" if command.cancel_requested_at is not None else str(command.state)


def _typed(command: "Command") -> str:
    import shlex

    return " ".join(shlex.join(command.argv).split())


@app.command()
def show(target: Target) -> None:
    """Show a command: its arguments, state and result."""
    found = ask(calls.command(target))
    output.show_facts(
        found,
        (
            ("command", found.id),
            ("state", describe_end(found) if found.ended else _state(found)),
            ("argv", _typed(found)),
            ("run", found.run),
            ("node", f"{found.node_id} (number {found.ordinal} of {found.count})"),
            ("operation", found.operation_id),
            ("created", f"{output.timestamp(found.created_at)} ({output.age(found.created_at)} ago)"),
            ("started", output.timestamp(found.started_at)),
            ("ended", output.timestamp(found.ended_at)),
            ("output", f"cut: {found.kept / 2**20:.3g} MiB of it are kept" if found.kept else ""),
        ),
    )


@app.command()
def cancel(
    target: Annotated[
        str,
        typer.Argument(
            metavar="COMMAND|RUN|OPERATION",
            help="A command's id, or a run: all of its commands that still run.",
        ),
    ],
) -> None:
    """Kill commands with all their processes. The nodes stay with their run."""
    with open_client() as client:
        found = of_target(client, target)
        if not found:
            raise NotFound("commands of", target)
        asked = [
            each if each.ended else client.send(calls.cancel_command(each.id))
            for each in found
            if len(found) == 1 or not each.ended
        ]
    lines = [
        f"✔ {each.id} had ended already ({_state(each)})"
        if each.ended
        else f"✔ {each.id} is asked to stop; see its end with `muster logs -f {each.id}`"
        for each in asked
    ]
    none = f"✔ nothing to stop: {counted(len(found), 'command')} of {target}, none still running"
    output.show({"items": asked}, *(lines or (none,)))
