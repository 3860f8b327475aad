"""What is printed: JSON for programs, tables and sentences for people.

Owns the form of output. In a terminal a table is cut to fit; elsewhere nothing is cut, so that lines can be
searched. JSON is one document, or one line per item where there is no end to wait for.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from enum import Enum, StrEnum
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from muster.domain.errors import MusterError


class Form(StrEnum):
    TEXT = "text"
    JSON = "json"


class _Chosen:
    form = Form.TEXT


def _choose(value: Form | None) -> Form:
    """Given to a group or to its command, it holds for both; also for an error that ends them."""
    if value is not None:
        _Chosen.form = value
    return _Chosen.form


Output = Annotated[
    Form | None, typer.Option("--output", "-o", help="text, or json for programs.", callback=_choose)
]


def wants_json() -> bool:
    return _Chosen.form is Form.JSON


# --- JSON ----------------------------------------------------------------------------------------


def plain(value: object) -> Any:
    """What the API answered, as it would be in JSON."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


def document(value: object) -> None:
    """The one JSON document of a command."""
    say(json.dumps(plain(value), indent=2, ensure_ascii=False))


def line(value: object) -> None:
    """One item of a stream of JSON."""
    say(json.dumps(plain(value), ensure_ascii=False))


# --- text ----------------------------------------------------------------------------------------


def say(text: str, *, file: IO[str] | None = None) -> None:
    print(text, file=file or sys.stdout, flush=True)


def terminal(file: IO[str] | None = None) -> bool:
    """Whether a person looks at it live: a real terminal that understands more than lines."""
    return (file or sys.stdout).isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def console(file: IO[str] | None = None) -> "Console":
    from rich.console import Console

    return Console(file=file or sys.stdout, highlight=False, markup=False, emoji=False)


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    cut: bool = False
    """May be cut in a terminal that is too narrow; ids and states never are."""
    right: bool = False
    style: Callable[[str], str] | None = None


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], *, nothing: str) -> None:
    if not rows:
        say(nothing)
    elif terminal():
        _drawn(columns, rows)
    else:
        _lined(columns, rows)


def _drawn(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    from rich.table import Table

    drawn = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for number, column in enumerate(columns):
        longest = max(len(row[number]) for row in rows)
        drawn.add_column(
            column.name,
            justify="right" if column.right else "left",
            no_wrap=True,
            overflow="ellipsis",
            min_width=None if column.cut else max(longest, len(column.name)),
        )
    for row in rows:
        drawn.add_row(*(_cell(column, cell) for column, cell in zip(columns, row, strict=True)))
    console().print(drawn)


def _cell(column: Column, cell: str) -> "Text":
    from rich.text import Text

    return Text(cell, style=column.style(cell) if column.style else "")


def _lined(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    listed = [[column.name for column in columns], *rows]
    widths = [max(len(row[number]) for row in listed) for number in range(len(columns))]
    for row in listed:
        cells = zip(columns, row, widths, strict=True)
        padded = (cell.rjust(width) if column.right else cell.ljust(width) for column, cell, width in cells)
        say("  ".join(padded).rstrip())


def facts(pairs: Sequence[tuple[str, str]]) -> None:
    """Names and values, one pair per line; what has no value is left out."""
    shown = [(name, value) for name, value in pairs if value]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        first, *more = value.splitlines()
        say(f"{name.ljust(width)}  {first}")
        for each in more:
            say(f"{' ' * width}  {each}")


_STATES = {
    "idle": "green",
    "running": "green",
    "succeeded": "green",
    "claimed": "cyan",
    "created": "cyan",
    "releasing": "cyan",
    "queued": "cyan",
    "failed": "red",
    "terminating": "yellow",
    "terminated": "dim",
    "cancelled": "yellow",
}


def state_style(state: str) -> str:
    return _STATES.get(state.partition(" ")[0], "")


def since(at: str | None) -> str:
    """How long ago, in one unit."""
    from muster.cli.durations import rough

    return "-" if at is None else rough(time.time() - moment(at))


def until(at: str | None) -> str:
    from muster.cli.durations import rough

    if at is None:
        return "-"
    left = moment(at) - time.time()
    return rough(left) if left > 0 else "over"


def moment(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()


# --- errors --------------------------------------------------------------------------------------


def tell(error: "MusterError") -> int:
    """Say what went wrong, in the form that was asked for; gives the exit code."""
    from muster.cli import exits

    code = exits.code_of(error)
    left = isinstance(error, exits.Detached | exits.OutOfPatience)
    if wants_json() and not (isinstance(error, exits.OperationFailed) and error.shown):
        document({"error": {"code": exits.name_of(error), "message": str(error), "exit_code": code}})
    say(str(error) if left else f"error: {error}", file=sys.stderr)
    return code
