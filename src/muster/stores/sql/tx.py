"""What a transaction function may do: run statements, and say what it wrote.

Owns the boundary between statements and drivers. Statements name their parameters `:name` and use only what
SQLite and PostgreSQL have in common; a driver that spells parameters differently translates them here.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from muster.stores.announcing import Written

Value = None | int | float | str | bytes
Params = Mapping[str, Value]
Row = tuple[Any, ...]

NOTHING: Params = {}


class Tx(Protocol):
    """One open transaction. What it raises undoes everything that the function did."""

    written: list[Written]
    """What this transaction appended to the event log; announced after the commit."""

    def execute(self, sql: str, params: Params = NOTHING) -> Sequence[Row]:
        """Run one statement and fetch all that it gives."""
        ...

    def change(self, sql: str, params: Params = NOTHING) -> int:
        """Run one statement and say how many rows it wrote."""
        ...

    def many(self, sql: str, params: Sequence[Params]) -> None:
        """Run one statement once per set of parameters."""
        ...
