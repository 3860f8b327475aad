"""`muster pause`: stop new claims and launches. Runs continue."""

from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.confirm import Yes
from muster.cli.printing import Output

if TYPE_CHECKING:
    from muster.wire.templates import Pauses

Template = Annotated[
    str | None, typer.Argument(metavar="[TEMPLATE]", help="Which template. (default: everything)")
]


def pause(template: Template = None, *, yes: Yes = False, _output: Output = None) -> None:
    """Stop new claims and launches of a template, or of all. Runs continue.

    Asks before it pauses all.
    """
    from muster.cli.confirm import confirm
    from muster.cli.connecting import connected
    from muster.client import calls

    if template is None:
        confirm("This stops new claims and launches of every template.", yes=yes)

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
