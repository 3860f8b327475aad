"""`muster extend`: give the nodes of a run a later deadline."""

from typing import Annotated

import typer

from muster.cli.durations import seconds
from muster.cli.printing import Output
from muster.domain.text import counted


def extend(
    target: Annotated[str, typer.Argument(metavar="RUN|OPERATION", help="A run, or its provision's id.")],
    *,
    by: Annotated[float, typer.Option("--by", parser=seconds, metavar="DURATION", help="e.g. 30m.")],
    _output: Output = None,
) -> None:
    """Give the nodes of a run more time."""
    from muster.cli import printing
    from muster.cli.connecting import connected, serving
    from muster.cli.durations import clock
    from muster.client import calls

    with connected() as client:
        nodes = client.send(calls.extend(serving(client, target), by)).items
    if printing.wants_json():
        printing.document({"items": nodes})
        return
    left = min((printing.until(node.deadline_at) for node in nodes), default="-")
    printing.say(f"✔ {counted(len(nodes), 'node')} of {target}: {clock(by)} more, {left} left")
