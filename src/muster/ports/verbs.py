"""Marks on the verbs of a port: which ones read, and which ones write.

A mark is an attribute of the function, set where the port declares the verb. What wraps a port (faults of the
simulation, watched calls in tests) asks here and keeps no list of its own. A test holds every verb to a mark.
"""

import inspect
from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])
_MARK = "muster_writes"


def reads(verb: F) -> F:
    """Mark a verb that changes no record."""
    setattr(verb, _MARK, False)
    return verb


def writes(verb: F) -> F:
    """Mark a verb that may change a record, or the world outside."""
    setattr(verb, _MARK, True)
    return verb


def reads_of(port: type) -> frozenset[str]:
    """Return the names of the verbs that change no record."""
    return frozenset(name for name, mark in marks(port).items() if mark is False)


def marks(port: type) -> dict[str, bool | None]:
    """Return whether each public verb writes; None: it has no mark."""
    found = inspect.getmembers(port, inspect.isfunction)
    return {name: getattr(verb, _MARK, None) for name, verb in found if not name.startswith("_")}
