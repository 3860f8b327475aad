"""Translate the shared SQL for PostgreSQL: parameters, and the types of the schema."""

import re
from functools import lru_cache

from muster.stores.sql.tx import Params, Value

_NAME = re.compile(r":([a-z_][a-z0-9_]*)")
_TYPES = {
    "INTEGER PRIMARY KEY AUTOINCREMENT": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "INTEGER": "BIGINT",
    "REAL": "DOUBLE PRECISION",
    "BLOB": "BYTEA",
    # Texts are compared by their bytes, as SQLite does, whatever the database's language is.
    "TEXT": 'TEXT COLLATE "C"',
}
_TYPE = re.compile("|".join(rf"\b{name}\b" for name in _TYPES))


@lru_cache(maxsize=4096)
def numbered(sql: str) -> tuple[str, tuple[str, ...]]:
    """Return SQL with `$1` for `:name`, and the names in the order of their numbers."""
    names: dict[str, int] = {}
    text = _NAME.sub(lambda found: f"${names.setdefault(found[1], len(names) + 1)}", sql)
    return text, tuple(names)


def values(names: tuple[str, ...], params: Params) -> tuple[Value, ...]:
    return tuple(params[name] for name in names)


def storable(given: tuple[Value, ...]) -> tuple[Value, ...]:
    """Return text without the one character that PostgreSQL can't store."""
    return tuple(each.replace("\0", "\ufffd") if isinstance(each, str) else each for each in given)


def schema(statement: str) -> str:
    """Return a statement of a migration in PostgreSQL's types."""
    return _TYPE.sub(lambda found: _TYPES[found[0]], statement)
