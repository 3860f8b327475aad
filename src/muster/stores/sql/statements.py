"""Parts of statements that both SQL engines share: lists of values, merged lists, the append to the log."""

from collections.abc import Sequence
from typing import TypeVar

from muster.stores.sql.tx import Value

T = TypeVar("T")

COLUMNS = ("at", "entity", "entity_id", "version", "name", "changes", "detail", "actor")
INTO = f"INSERT INTO events ({', '.join(COLUMNS)})"
APPEND = f"{INTO} VALUES ({', '.join(f':{name}' for name in COLUMNS)})"
"""Drivers know this statement, because some append at the very end."""


def placeholders(prefix: str, count: int) -> str:
    """Return `:a0, :a1, …` for IN (…)."""
    return ", ".join(f":{prefix}{index}" for index in range(count))


def bind(prefix: str, values: Sequence[Value]) -> dict[str, Value]:
    return {f"{prefix}{index}": value for index, value in enumerate(values)}


def in_chunks(values: Sequence[T], size: int = 500) -> list[Sequence[T]]:
    """Split a long list for several statements: engines limit the parameters of one."""
    return [values[start : start + size] for start in range(0, len(values), size)]


def merge_queries(branches: Sequence[str], order: str) -> str:
    """Combine several ordered and limited queries over one index each into one ordered and limited list.

    `IN (…)` with ORDER BY would sort everything that matches; this reads at most `:limit` rows per branch. A
    single branch is that list already: around it, SQLite would sort once more.
    """
    if len(branches) == 1:
        return f"{branches[0]} ORDER BY {order} LIMIT :limit"
    union = " UNION ALL ".join(
        f"SELECT * FROM ({branch} ORDER BY {order} LIMIT :limit) AS b" for branch in branches
    )
    return f"{union} ORDER BY {order} LIMIT :limit"
