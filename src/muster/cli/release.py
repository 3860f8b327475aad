"""`muster release`: give the nodes of a run back."""

from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import options
from muster.cli.connection import calls, is_operation, open_client
from muster.cli.durations import format_taken
from muster.cli.exits import SeveralProvisions, UsageProblem
from muster.cli.operation_watch import finish_or_detach
from muster.cli.output import say
from muster.domain.errors import Ambiguous

if TYPE_CHECKING:
    from muster.wire.operations import Operation


def release(
    target: Annotated[str, typer.Argument(metavar="RUN|OPERATION", help="A run, or its provision's id.")],
    *,
    latest: Annotated[
        bool, typer.Option("--latest", help="Of a run with several provisions, the newest.")
    ] = False,
    wait: options.Wait = None,
    detach: options.Detach = False,
    key: options.Key = None,
) -> None:
    """Give the nodes of a run back. A provision that isn't ready yet is cancelled."""
    named = is_operation(target)
    if named and latest:
        raise UsageProblem("cannot use --latest with an operation: it chooses among the provisions of a run")
    with open_client() as client:
        call = calls.release(
            operation_id=target if named else None, run=None if named else target, latest=latest, key=key
        )
        try:
            accepted = client.send(call)
        except Ambiguous as error:
            raise SeveralProvisions(error.run, error.operation_ids) from error
        finish_or_detach(client, accepted, wait=wait, detach=detach, done=_returned)


def _returned(operation: "Operation") -> None:
    say(f"✔ {operation.message or 'the nodes are back'} ({format_taken(operation.elapsed_seconds)})")
