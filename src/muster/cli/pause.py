"""`muster pause` and `muster resume`: stop new claims and launches, and allow them again. Runs continue."""

from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import output
from muster.cli.connection import ask, calls
from muster.cli.options import Yes, confirm

if TYPE_CHECKING:
    from muster.wire.templates import Pauses

Template = Annotated[
    str | None, typer.Argument(metavar="[TEMPLATE]", help="Which template. (default: everything)")
]


def pause(template: Template = None, *, yes: Yes = False) -> None:
    """Stop new claims and launches of a template, or of all. Runs continue.

    Asks before it pauses all.
    """
    if template is None:
        confirm("This stops new claims and launches of every template.", yes=yes)

    print_pauses(ask(calls.pause(template)))


def print_pauses(pauses: "Pauses") -> None:
    held = [*(["everything"] if pauses.all else []), *pauses.templates]
    output.show(pauses, f"✔ paused: {', '.join(held)}" if held else "✔ nothing is paused")


def resume(template: Template = None) -> None:
    """End the pause of a template, or the pause of all. Templates paused by name stay paused."""
    print_pauses(ask(calls.resume(template)))
