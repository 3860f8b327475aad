"""Print results: JSON for programs, tables and sentences for people.

Owns the form of output. In a terminal a table is cut to fit; elsewhere nothing is cut, so that lines can be
searched. JSON is one document, or one line per item if there is no end to wait for. Results go to stdout;
errors and notices go to stderr, in JSON one line each.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from enum import Enum, StrEnum
from typing import IO, TYPE_CHECKING, Annotated, Any, Generic, TypeVar

import typer

from muster.domain.text import harmless

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from muster.domain.errors import MusterError

T = TypeVar("T")


class Form(StrEnum):
    TEXT = "text"
    JSON = "json"


class OutputSettings:
    """One process is one command: what it was asked for holds everywhere in it."""

    form = Form.TEXT
    raw = False


def _choose(value: Form | None) -> Form:
    """Store the form for the whole process, so that errors have it too."""
    if value is not None:
        OutputSettings.form = value
    return OutputSettings.form


_FORM = typer.Option(
    "--output", "-o", help="text, or json for programs.", callback=_choose, expose_value=False
)


def add_option(command: Any) -> None:
    """Give a command, and all commands below it, the option `--output`."""

    def declare(_form: Annotated[Form | None, _FORM] = None) -> None: ...

    command.params += typer.main.get_params_convertors_ctx_param_name_from_function(declare)[0]
    for each in getattr(command, "commands", {}).values():
        add_option(each)


def _choose_raw(value: bool) -> bool:
    OutputSettings.raw = value
    return value


Raw = Annotated[
    bool,
    typer.Option(
        "--raw",
        help="Print output unchanged, with its control sequences.",
        callback=_choose_raw,
    ),
]


def wants_json() -> bool:
    return OutputSettings.form is Form.JSON


def must_sanitise(file: IO[str] | None = None) -> bool:
    """Return whether control sequences of nodes must be removed: a terminal would obey them."""
    return not OutputSettings.raw and (file or sys.stdout).isatty()


# --- JSON ----------------------------------------------------------------------------------------


_UNPRINTED = {"Operation": ("steps", "request"), "BootKind": ("seconds",)}
"""What the page alone draws; `--output json` never had it."""


def plain(value: object) -> Any:
    """Return a value of the API as plain JSON data."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return timestamp(value)
    names = getattr(value, "__struct_fields__", None)
    if names is None and is_dataclass(value):
        names = [each.name for each in fields(value)]
    if names is not None:
        left_out = _UNPRINTED.get(type(value).__name__, ())
        return {name: plain(getattr(value, name)) for name in names if name not in left_out}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


def print_json(value: object) -> None:
    """Print the one JSON document of a command."""
    say(json.dumps(plain(value), indent=2, ensure_ascii=False))


def show(document: object, *lines: str) -> None:
    """Print the result of a command: the document for programs, the lines for people."""
    if wants_json():
        print_json(document)
        return
    for line in lines:
        say(line)


def print_json_line(value: object) -> None:
    """Print one item of a stream of JSON."""
    say(json.dumps(plain(value), ensure_ascii=False))


# --- text ----------------------------------------------------------------------------------------


def say(text: str, *, file: IO[str] | None = None) -> None:
    print(harmless(text) if must_sanitise(file) else text, file=file or sys.stdout, flush=True)


def is_terminal(file: IO[str] | None = None) -> bool:
    """Return whether output goes to a real terminal that understands more than lines."""
    return (file or sys.stdout).isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def uses_colour() -> bool:
    """Return whether to use colours, by the rule of https://no-color.org."""
    return is_terminal() and not os.environ.get("NO_COLOR")


def console(file: IO[str] | None = None) -> "Console":
    from rich.console import Console

    return Console(file=file or sys.stdout, highlight=False, markup=False, emoji=False)


GAP = 2
CUT_LEAST = 8


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    name: str
    of: Callable[[T], object] = str
    """What an item has there. None is shown as `-`."""
    cut: bool = False
    """May be cut in a terminal that is too narrow; ids and states never are."""
    right: bool = False
    spare: bool = False
    """May be left out in a terminal that is too narrow, if there is nothing but 0 in it."""
    style: Callable[[str], str] | None = None


Columns = Sequence[Column[T]]


def show_table(document: object, items: Sequence[T], columns: Columns[T], *, nothing: str) -> None:
    """Print the document for programs, or a row per item for people. `nothing`: what is said of no items."""
    if wants_json():
        print_json(document)
        return
    if not items:
        say(nothing)
        return
    rows = [[_cell(column.of(item)) for column in columns] for item in items]
    listed: Sequence[Sequence[str]] = [[column.name for column in columns], *rows]
    if not is_terminal():
        widths = column_widths(columns, listed, None)
        for row in listed:
            say("  ".join(_cells(columns, row, widths)).rstrip())
        return
    out = console()
    columns, listed = without_empty_columns(columns, listed, out.width)
    widths = column_widths(columns, listed, out.width)
    for number, row in enumerate(listed):
        out.print(_drawn(columns, _cells(columns, row, widths), heading=number == 0), soft_wrap=True)


def _cell(value: object) -> str:
    return "-" if value is None else str(value)


def without_empty_columns(
    columns: Columns[Any], listed: Sequence[Sequence[str]], room: int
) -> tuple[Columns[Any], Sequence[Sequence[str]]]:
    """Leave out columns that are all zero, if only then the table fits."""
    widths = column_widths(columns, listed, room)
    if sum(widths) + GAP * (len(widths) - 1) <= room:
        return columns, listed
    kept = [
        number
        for number, column in enumerate(columns)
        if not column.spare or any(row[number] != "0" for row in listed[1:])
    ]
    return [columns[number] for number in kept], [[row[number] for number in kept] for row in listed]


def print_indented(text: str) -> None:
    """Print a line that belongs to the line above; in a terminal, wrap it between words."""
    for each in wrapped(text, console().width) if is_terminal() else [f"  {text}"]:
        say(each)


def wrapped(text: str, room: int) -> list[str]:
    import textwrap

    return textwrap.wrap(
        text,
        room,
        initial_indent="  ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )


def column_widths(columns: Columns[Any], listed: Sequence[Sequence[str]], room: int | None) -> list[int]:
    """Return the width of each column. If the table is too wide, cut the widest of the columns that may be
    cut."""
    widths = [max(len(row[number]) for row in listed) for number in range(len(columns))]
    if room is None:
        return widths
    for _ in range(sum(widths) + GAP * (len(widths) - 1) - room):
        cuttable = [n for n, column in enumerate(columns) if column.cut and widths[n] > CUT_LEAST]
        if not cuttable:
            break
        widths[max(cuttable, key=lambda number: widths[number])] -= 1
    return widths


def _cells(columns: Columns[Any], row: Sequence[str], widths: Sequence[int]) -> list[str]:
    cells = []
    for column, cell, width in zip(columns, row, widths, strict=True):
        kept = cell if len(cell) <= width else f"{cell[: width - 1]}…"
        cells.append(kept.rjust(width) if column.right else kept.ljust(width))
    return cells


def _drawn(columns: Columns[Any], cells: Sequence[str], *, heading: bool) -> "Text":
    from rich.text import Text

    drawn = Text()
    for number, (column, cell) in enumerate(zip(columns, cells, strict=True)):
        style = "bold" if heading else column.style(cell.strip()) if column.style else ""
        drawn.append(" " * GAP if number else "").append(cell, style=style)
    return drawn


def show_facts(document: object, pairs: Iterable[tuple[str, str]]) -> None:
    """Print the document for programs, or a line per name and value for people. Leave out empty values."""
    if wants_json():
        print_json(document)
        return
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
    "ready": "green",
    "starting": "cyan",
    "degraded": "yellow",
    "offline": "red",
    "claimed": "cyan",
    "created": "cyan",
    "releasing": "cyan",
    "queued": "cyan",
    "failed": "red",
    "terminating": "yellow",
    "terminated": "dim",
    "completed": "dim",
    "cancelled": "yellow",
}


def state_style(state: str) -> str:
    return _STATES.get(state.partition(" ")[0], "")


def age(at: datetime | None) -> str:
    """Return how long ago a time was, in one unit."""
    from muster.cli.durations import format_rough

    return "-" if at is None else format_rough(time.time() - at.timestamp())


def time_left(at: datetime | None) -> str:
    from muster.cli.durations import format_rough

    if at is None:
        return "-"
    left = at.timestamp() - time.time()
    return format_rough(left) if left > 0 else "over"


def timestamp(at: datetime | None) -> str:
    """Return a time as the API writes it; empty if there is none."""
    return "" if at is None else at.isoformat().replace("+00:00", "Z")


# --- errors --------------------------------------------------------------------------------------


def report_error(error: "MusterError") -> int:
    """Say what went wrong; gives the exit code."""
    from muster.cli import exits

    left = isinstance(error, exits.Detached | exits.OutOfPatience)
    failed = isinstance(error, exits.OperationFailed)
    where = f"see {exits.help_link(exits.explained_code(error))}"
    told = left or failed or wants_json()
    code = print_error(
        exits.name_of(error),
        f"{error}{exits.hint(error)}" + ("" if told else f" ({where})"),
        exit_code=exits.code_of(error),
        sign="" if left else "error: ",
        explained=exits.explained_code(error),
    )
    if not wants_json():  # the record that was printed has it
        for detail in exits.diagnosis(error):
            say(f"  {detail}", file=sys.stderr)
        if failed:
            say(f"  {where}", file=sys.stderr)
    return code


def print_error(
    code: str, message: str, *, exit_code: int, sign: str = "error: ", explained: str | None = None
) -> int:
    """Print an error as a sentence or a line of JSON, and return the exit code.

    `explained`: the code of the reason, if it differs.
    """
    if wants_json():
        from muster.cli.exits import help_link

        why = {} if explained in (None, code) else {"reason": explained}
        error = {
            "code": code,
            **why,
            "message": message,
            "exit_code": exit_code,
            "help": help_link(explained or code),
        }
        say(json.dumps({"error": error}, ensure_ascii=False), file=sys.stderr)
    else:
        say(f"{sign}{message}", file=sys.stderr)
    return exit_code


def print_notice(code: str, message: str) -> None:
    """Print a notice on stderr. It changes nothing about the result."""
    if wants_json():
        message = json.dumps({"notice": {"code": code, "message": message}}, ensure_ascii=False)
    # From any thread, at any time: a closed stderr is no error here.
    with suppress(OSError, ValueError):
        say(message, file=sys.stderr)
