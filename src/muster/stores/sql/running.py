"""A piece of work for the store, and how it ended: what engines and drivers hand to each other."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from muster.stores.sql.tx import Tx

T = TypeVar("T")
Work = Callable[[Tx], T]
"""May be run more than once, if another transaction was in the way; only the last run counts."""


@dataclass(frozen=True, slots=True)
class Done:
    """How one piece of work ended."""

    value: Any = None
    error: BaseException | None = None


def caused(error: Exception, cause: BaseException) -> Exception:
    """`raise … from`, for an error that is handed over instead of raised."""
    error.__cause__ = cause
    return error
