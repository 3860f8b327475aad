"""`muster logs`: what commands wrote, so far or to their end."""

from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import asking
from muster.cli.printing import Output

if TYPE_CHECKING:
    from muster.client import SyncClient
    from muster.client.results import Command

_PAGE = 500


def logs(
    target: Annotated[
        str, typer.Argument(metavar="RUN|COMMAND", help="A run, an operation, or one command's id.")
    ],
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until they have ended.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Of all commands, not only the last ones.")] = False,
    wait: asking.Wait = None,
    _output: Output = None,
) -> None:
    """Show what the last commands of a run wrote, line by line: `[0] …`."""
    from muster.cli import printing, streaming
    from muster.cli.connecting import connected
    from muster.cli.watching import Patience, detachable

    how = f"see the rest with `muster logs -f {target}`"
    with connected() as client:
        batches = _batches(client, target)
        for batch in batches if every else batches[-1:]:
            with detachable(how):
                if printing.wants_json():
                    outputs = streaming.gathered(client, batch, Patience(wait), how=how, follow=follow)
                    for each in batch:
                        printing.line({**printing.plain(each), "output": outputs[each.ordinal]})
                else:
                    streaming.stream(client, batch, Patience(wait), how=how, follow=follow)


def _batches(client: "SyncClient", target: str) -> "list[list[Command]]":
    """Commands that were started together, oldest first."""
    from muster.cli.connecting import is_command
    from muster.client import calls
    from muster.domain.errors import NotFound

    if is_command(target):
        return [[client.send(calls.command(target))]]
    batches: dict[str, list[Command]] = {}
    for command in sorted(_found(client, target), key=lambda each: (each.created_at, each.ordinal)):
        batches.setdefault(command.id.rpartition(".")[0], []).append(command)
    if not batches:
        raise NotFound("commands of", target)
    return list(batches.values())


def _found(client: "SyncClient", target: str) -> "tuple[Command, ...]":
    from muster.cli.connecting import is_operation
    from muster.client import calls
    from muster.domain.operation import Kind

    if not is_operation(target):
        return client.send(calls.commands(run=target, limit=_PAGE)).items
    operation = client.send(calls.operation(target))
    if operation.kind is not Kind.RUN:
        return client.send(calls.commands(operation_id=target)).items
    found = client.send(calls.commands(run=operation.run, limit=_PAGE)).items
    return tuple(command for command in found if command.id.startswith(f"{target}."))
