"""`muster logs`: print the output of commands, so far or to their end."""

from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import command_output, options, output
from muster.cli.commands import of_target
from muster.cli.connection import calls, open_client
from muster.cli.operation_watch import Patience, detachable
from muster.cli.output import Raw
from muster.domain.errors import NotFound

if TYPE_CHECKING:
    from muster.client import SyncClient
    from muster.wire.commands import Command


def logs(
    target: Annotated[
        str, typer.Argument(metavar="RUN|COMMAND", help="A run, an operation, or one command's id.")
    ],
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue until the commands have ended.")
    ] = False,
    every: Annotated[bool, typer.Option("--all", help="Of all commands, not only the last ones.")] = False,
    wait: options.Wait = None,
    _raw: Raw = False,
) -> None:
    """Show what the last commands of a run wrote, line by line: `[0] …`."""
    how = f"see the rest with `muster logs -f {target}`"
    with open_client() as client:
        batches = _batches(client, target)
        for batch in batches if every else batches[-1:]:
            with detachable(how):
                if output.wants_json():
                    outputs = command_output.collect_output(
                        client, batch, Patience(wait), how=how, follow=follow
                    )
                    for each in (client.send(calls.command(each.id)) for each in batch):
                        output.print_json_line({**output.plain(each), "output": outputs[each.ordinal]})
                else:
                    command_output.print_output(client, batch, Patience(wait), how=how, follow=follow)


def _batches(client: "SyncClient", target: str) -> "list[list[Command]]":
    """Return commands grouped by common start, oldest first."""
    batches: dict[str, list[Command]] = {}
    for command in of_target(client, target):
        batches.setdefault(command.id.rpartition(".")[0], []).append(command)
    if not batches:
        raise NotFound("commands of", target)
    return list(batches.values())
