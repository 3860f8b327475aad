"""What a look at a store found, whatever its engine is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    where: str
    engine: str
    version: int
    """Of the schema; 0: there is none yet."""
    latest: int
    """Of the schema that this program knows."""
    installation_id: str | None
    connections: int | None = None
    """That the server has for everybody; None: it is a file."""
    problem: str = ""
    """What is wrong with it, if something is."""
