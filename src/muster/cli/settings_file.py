"""Which file has the server's settings: the one that was named, else the one that `serve` takes here."""

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
