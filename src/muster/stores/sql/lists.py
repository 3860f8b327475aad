"""Fragments of statements for lists of values, in the words that both SQL engines share."""

from collections.abc import Sequence

from muster.stores.sql.tx import Value


def marks(prefix: str, count: int) -> str:
    """`:a0, :a1, …` for IN (…)."""
    return ", ".join(f":{prefix}{index}" for index in range(count))


def bound(prefix: str, values: Sequence[Value]) -> dict[str, Value]:
    return {f"{prefix}{index}": value for index, value in enumerate(values)}


def in_chunks(values: Sequence[str], size: int = 500) -> list[Sequence[str]]:
    """Long lists in several statements: engines bound the number of parameters of one."""
    return [values[start : start + size] for start in range(0, len(values), size)]


def merged(branches: Sequence[str], order: str) -> str:
    """Several ordered and limited queries over one index each, as one ordered and limited list.

    `IN (…)` with ORDER BY would sort everything that matches; this reads at most `:limit` rows per branch.
    """
    union = " UNION ALL ".join(
        f"SELECT * FROM ({branch} ORDER BY {order} LIMIT :limit) AS b" for branch in branches
    )
    return f"{union} ORDER BY {order} LIMIT :limit"
