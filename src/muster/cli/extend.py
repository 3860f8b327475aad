"""`muster extend`: give the nodes of a run a later deadline."""

from typing import Annotated

import typer

from muster.cli import output
from muster.cli.connection import calls, find_provision, open_client
from muster.cli.durations import format_clock
from muster.cli.options import duration_option
from muster.domain.text import counted


def extend(
    target: Annotated[str, typer.Argument(metavar="RUN|OPERATION", help="A run, or its provision's id.")],
    *,
    by: Annotated[float, duration_option("--by", help="e.g. 30m.")],
) -> None:
    """Give the nodes of a run more time."""
    with open_client() as client:
        nodes = client.send(calls.extend(find_provision(client, target), by)).items
    left = min((output.time_left(node.deadline_at) for node in nodes), default="-")
    told = f"{counted(len(nodes), 'node')} of {target}: {format_clock(by)} more, {left} left"
    output.show({"items": nodes}, f"✔ {told}")
