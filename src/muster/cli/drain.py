"""`muster drain`: keep a node from further runs."""

from typing import Annotated

import typer

from muster.cli import output
from muster.cli.connection import ask, calls


def drain(node: Annotated[str, typer.Argument(metavar="NODE", help="The node's id.")]) -> None:
    """Keep a node from further runs; terminate it when it is free."""
    found = ask(calls.drain(node))
    then = f": it ends once {found.run} gives it back" if found.run else ""
    output.show(found, f"✔ {found.id} is {found.state} and drained{then}")
