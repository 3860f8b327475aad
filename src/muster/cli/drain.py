"""`muster drain`: keep a node from further runs."""

from typing import Annotated

import typer

from muster.cli.printing import Output


def drain(
    node: Annotated[str, typer.Argument(metavar="NODE", help="The node's id.")], *, _output: Output = None
) -> None:
    """Keep a node from further runs; terminate it when it is free."""
    from muster.cli import printing
    from muster.cli.connecting import connected
    from muster.client import calls

    with connected() as client:
        found = client.send(calls.drain(node))
    if printing.wants_json():
        printing.document(found)
        return
    then = f": it ends once {found.run} gives it back" if found.run else ""
    printing.say(f"✔ {found.id} is {found.state} and drained{then}")
