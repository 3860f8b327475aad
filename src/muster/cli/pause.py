"""`muster pause`: the brake. What runs goes on."""

from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.printing import Output

if TYPE_CHECKING:
    from muster.client.results import Pauses

Template = Annotated[
    str | None, typer.Argument(metavar="[TEMPLATE]", help="Which template. (default: everything)")
]


def pause(template: Template = None, *, _output: Output = None) -> None:
    """Hold back new claims and launches, of one template or of everything. What runs goes on."""
    from muster.cli.connecting import connected
    from muster.client import calls

    with connected() as client:
        told(client.send(calls.pause(template)))


def told(pauses: "Pauses") -> None:
    from muster.cli import printing

    if printing.wants_json():
        printing.document(pauses)
        return
    held = ["everything"] if pauses.all else []
    held += pauses.templates
    printing.say(f"✔ paused: {', '.join(held)}" if held else "✔ nothing is paused")
