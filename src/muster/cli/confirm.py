"""Ask before an act that can't be undone. Programs answer with `--yes`."""

import sys
from typing import Annotated

import typer

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")]


def confirm(what: str, *, yes: bool) -> None:
    """Ask for confirmation. Raises UsageProblem without a terminal, Abort for a no."""
    from muster.cli import printing
    from muster.cli.exits import UsageProblem

    if yes:
        return
    if printing.wants_json() or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageProblem(f"cannot ask without a terminal: {what} To confirm, repeat with --yes.")
    if not typer.confirm(f"{what} Go on?", err=True):
        raise typer.Abort
