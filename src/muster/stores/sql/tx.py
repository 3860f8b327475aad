"""Transactions: what a transaction function may do, and what engines and drivers hand to each other.

Owns the boundary between statements and drivers. Statements name their parameters `:name` and use only what
SQLite and PostgreSQL have in common; a driver that spells parameters differently translates them here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from muster.domain.ids import OperationId
from muster.ports.commits import Written

T = TypeVar("T")
Value = None | int | float | str | bytes
Params = Mapping[str, Value]
Row = tuple[Any, ...]
Judge = Callable[[Sequence[Row]], None]
"""Looks at rows, and raises if the transaction must not happen."""
Refusal = Callable[[], Exception]
"""Returns why the transaction must not happen."""

NOTHING: Params = {}
FULL = "the disk is full; free some space: `muster doctor` says which nodes use it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Locks:
    """What a SELECT ends with to keep the rows that it read as they are until the end of the transaction.

    An engine with one writer at a time needs none of it: there they are empty.
    """

    alone: bool
    """One transaction writes at a time: what was read stays true until the end."""
    hold: str = ""
    """Others who want to write the row wait for us, and we for them; then we read what they wrote."""
    skip: str = ""
    """The same, but rows that others hold are passed over."""
    share: str = ""
    """No other transaction writes the row meanwhile, but several may hold it so."""


ALONE = Locks(alone=True)


class Retry(Exception):
    """Another transaction was first, so what was read is no longer true: run the function again.

    Only where transactions run side by side. The engine runs the function again without notice to the caller.
    """


def judge_row(refusal: Refusal, rows: Sequence[Row]) -> None:
    """Raise the refusal if there is no row."""
    if not rows:
        raise refusal()


class Hasty(Exception):
    """A hurried transaction took something for granted that isn't so: run the function again, unhurried."""


class Tx(Protocol):
    """One open transaction. What it raises undoes everything that the function did."""

    written: list[Written]
    """What this transaction appended to the event log; announced after the commit."""
    by: OperationId | None
    """The operation under whose fence it writes."""

    @property
    def locks(self) -> Locks: ...

    @property
    def hurried(self) -> bool:
        """Whether the function may take for granted what is mostly so, and raise Hasty if it isn't."""
        ...

    def execute(self, sql: str, params: Params = NOTHING) -> Sequence[Row]:
        """Run one statement and fetch all that it gives."""
        ...

    def execute_all(self, *statements: tuple[str, Params]) -> Sequence[Sequence[Row]]:
        """Run statements of which none needs another's rows, in one exchange; return the rows of each."""
        ...

    def change(self, sql: str, params: Params = NOTHING) -> int:
        """Run one statement and say how many rows it wrote."""
        ...

    def check(self, sql: str, params: Params, judge: Judge) -> None:
        """Run one statement, in one exchange with those that follow.

        `judge` gets its rows, at the latest before a later statement returns, or before the commit. What
        `judge` raises undoes the transaction: don't catch it in the function.
        """
        ...

    def require(self, sql: str, params: Params, refusal: Refusal) -> None:
        """Run one statement that must give a row. Without one, `refusal` is raised, as a judge does.

        The engine need not wait for the answer before the commit: the statement itself may undo the
        transaction. Then the function is run again to raise the refusal.
        """
        ...

    def append(self, event: Params) -> None:
        """Append to the event log, now or after everything else. Nothing in the transaction reads it."""
        ...

    def short(self) -> bool:
        """Return whether the room left is only for what ends work, so that nothing new should begin."""
        ...


Work = Callable[[Tx], T]
"""May be run more than once, if another transaction was in the way; only the last run counts."""


@dataclass(frozen=True, slots=True)
class WorkResult:
    """How one piece of work ended."""

    value: Any = None
    error: BaseException | None = None


def with_cause(error: Exception, cause: BaseException) -> Exception:
    """Return the error with its cause, for an error that is handed over instead of raised."""
    error.__cause__ = cause
    return error


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a look at a store found."""

    where: str
    engine: str
    version: int
    """Of the schema; 0: there is none yet."""
    latest: int
    """Of the schema that this program knows."""
    installation_id: str | None
    connections: int | None = None
    """Connections that the server has for all clients; None for a file."""
    problem: str = ""
    """What is wrong with it, if something is."""
