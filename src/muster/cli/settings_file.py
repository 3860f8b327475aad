"""Find the server's settings file: the named one, else the one that `serve` uses here."""

from pathlib import Path
from typing import Annotated

import typer

FILE = Path("muster.toml")
SettingsFile = Annotated[
    Path | None,
    typer.Option("--file", "-f", help="The server's settings. (default: ./muster.toml, if there is one)"),
]


def chosen(named: Path | None) -> Path | None:
    """None: there is none. One that was named is taken at the word: if it isn't there, reading it says so."""
    if named is None and FILE.is_file():
        return FILE
    return named
