"""Show progress: live in a terminal, one line per change elsewhere, JSON lines for programs.

Owns what is drawn, and that a bar never goes back. Reads the one payload of every kind of operation, and
leaves out what is missing: no step, no parts, no percent.
"""

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Self

from muster.cli import output
from muster.cli.durations import format_clock, format_estimate
from muster.domain.progress import Motion, Tone

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.text import Text

    from muster.client.reconnects import ConnectionChange
    from muster.wire.operations import Part, Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    code: str
    words: str
    good: bool


Taken = Callable[[Notice], None]


class CurrentView:
    """One process is one command, and draws one view at a time."""

    view: Taken | None = None


def report_connection(happened: "ConnectionChange") -> None:
    """Print that the connection was lost or is back, in the live view if there is one."""
    url, patience = happened.url, format_clock(happened.patience)
    if happened.back:
        notice = Notice(code="connection_back", words=f"connection to {url} is back", good=True)
    else:
        words = f"connection to {url} lost, retrying for up to {patience}"
        notice = Notice(code="connection_lost", words=words, good=False)
    view = CurrentView.view
    if view is not None:
        view(notice)
    else:
        output.print_notice(notice.code, notice.words)


LOOKS = {
    Tone.PENDING: ("○", "dim"),
    Tone.ACTIVE: ("◐", "cyan"),
    Tone.SUCCESS: ("✔", "green"),
    Tone.WARNING: ("▲", "yellow"),
    Tone.DANGER: ("✖", "red"),
}
"""A sign as well as a colour: some people see only one of them."""
FULL_NAMES = 6
"""Up to so many chips show whole ids; more show their ends."""
SHORT = 6
GOOD_NEWS = 5.0
"""Seconds for which it is shown that the server is back."""
EASE = 6.0
"""Per second, the share of the missing way that the bar moves: smooth, and there within a second."""


class View:
    """Shows nothing: the result says it all. Other views draw."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def show(self, progress: "Progress") -> None:
        return None


class JsonLineView(View):
    def show(self, progress: "Progress") -> None:
        output.print_json_line(progress)


class LineView(View):
    """One line per change. No control codes, nothing twice."""

    def __init__(self, file: IO[str] | None = None) -> None:
        self._file = file
        self._last = ("", "")

    def show(self, progress: "Progress") -> None:
        said = (where(progress), progress.message)
        if said != self._last:
            self._last = said
            words = heading(progress, progress.elapsed_seconds, message=True)
            output.say(words + time_left_text(progress.eta_seconds), file=self._file)


class LiveView(View):
    """Redrawn in place several times a second; gone when it ends, so that the result stands alone."""

    def __init__(self, *, elapsed: float = 0.0, file: IO[str] | None = None) -> None:
        from rich.live import Live as RichLive

        self._console = output.console(file)
        self._anchor = time.monotonic() - elapsed
        self._shown: Progress | None = None
        self._shown_at = 0.0
        self._notice: tuple[Notice, float] | None = None
        self._bar = Easing()
        self._live = RichLive(
            console=self._console, get_renderable=self._drawn, refresh_per_second=10, transient=True
        )

    def __enter__(self) -> Self:
        self._live.__enter__()
        CurrentView.view = self._noticed
        return self

    def __exit__(self, *error: object) -> None:
        CurrentView.view = None
        self._live.stop()

    def show(self, progress: "Progress") -> None:
        self._shown, self._shown_at = progress, time.monotonic()
        self._live.refresh()

    def _noticed(self, notice: Notice) -> None:
        self._notice = notice, time.monotonic()

    def _drawn(self) -> "RenderableType":
        from rich.console import Group
        from rich.text import Text

        now = time.monotonic()
        if self._shown is None:
            return Group(Text("asking the server …", style="dim"), *self._by_the_way(now))
        elapsed = self._shown.elapsed_seconds if self._shown.ended else now - self._anchor
        moved = drawn_percent(self._shown, passed=now - self._shown_at)
        percent = None if moved is None else self._bar.at(moved, now)
        eta = self._shown.eta_seconds
        if eta is not None:
            eta = max(0.0, eta - (now - self._shown_at))  # it goes on between two words of the server
        drawn = banner(self._shown, elapsed=elapsed, percent=percent, eta=eta, width=self._console.width)
        return Group(drawn, *self._by_the_way(now))

    def _by_the_way(self, now: float) -> "list[Text]":
        from rich.text import Text

        if self._notice is None or (self._notice[0].good and now - self._notice[1] > GOOD_NEWS):
            return []
        sign, style = LOOKS[Tone.SUCCESS if self._notice[0].good else Tone.WARNING]
        return [Text(f"{sign} {self._notice[0].words}", style=style, no_wrap=True, overflow="ellipsis")]


def drawn_percent(progress: "Progress", *, passed: float) -> float | None:
    """Return where the bar stands `passed` seconds after the server's answer, by the server's formula."""
    motion = progress.motion
    if progress.percent is None or motion is None or progress.ended:
        return progress.percent
    moving = Motion(
        low=motion.from_percent,
        high=motion.to_percent,
        since=motion.since.timestamp(),
        expected=motion.expected_seconds,
    )
    now = progress.started_at.timestamp() + progress.elapsed_seconds + passed
    return max(progress.percent, moving.at(now))


class Easing:
    """Follows a number smoothly, and never goes back."""

    def __init__(self) -> None:
        self._value = 0.0
        self._target = 0.0
        self._at: float | None = None

    def at(self, target: float, now: float) -> float:
        passed = 0.0 if self._at is None else max(0.0, now - self._at)
        self._at = now
        self._target = min(100.0, max(self._target, target))
        self._value += (self._target - self._value) * min(1.0, EASE * passed)
        return self._value


def choose_view(*, elapsed: float = 0.0, file: IO[str] | None = None, stream: bool = False) -> View:
    """Return the view that fits the output. `stream`: in JSON, each change is a line of its own."""
    if output.wants_json():
        return JsonLineView() if stream else View()
    if output.is_terminal(sys.stdout) and output.is_terminal(file):
        return LiveView(elapsed=elapsed, file=file)
    return LineView(file)


# --- the words -----------------------------------------------------------------------------------


def where(progress: "Progress") -> str:
    """`Step 3/5 · Booting and attaching`, or as much of it as is known."""
    name = progress.label or (progress.phase or "").replace("_", " ") or str(progress.status).capitalize()
    if progress.step is None or progress.total_steps is None:
        return name
    return f"Step {progress.step}/{progress.total_steps} · {name}"


def heading(progress: "Progress", elapsed: float, *, message: bool = False) -> str:
    said = f"{where(progress)} · {format_clock(elapsed)}"
    return f"{said} · {progress.message}" if message and progress.message else said


def chip_name(part: "Part", *, full: bool) -> str:
    if part.count > 1 or part.name == part.state:
        return f"{part.count} ×"
    return part.name if full or len(part.name) <= SHORT + 1 else f"…{part.name[-SHORT:]}"


def chip(part: "Part", *, full: bool) -> "Text":
    from rich.text import Text

    sign, style = LOOKS[part.tone]
    return Text.assemble(
        (f"{sign} ", style), f"{chip_name(part, full=full)} ", (f"{part.state} {part.detail}".rstrip(), style)
    )


def time_left_text(eta: float | None) -> str:
    """Return ` · about 12 s left`, or nothing without a good estimate."""
    return f" · about {format_estimate(eta)} left" if eta is not None else ""


def banner(
    progress: "Progress", *, elapsed: float, percent: float | None, width: int, eta: float | None = None
) -> "Group":
    from rich.console import Group
    from rich.text import Text

    where_and_when = heading(progress, elapsed) + (time_left_text(eta) if percent is None else "")
    rows: list[Any] = [Text(where_and_when, style="bold", no_wrap=True, overflow="ellipsis")]
    if progress.message:
        rows.append(Text(progress.message, style="dim", no_wrap=True, overflow="ellipsis"))
    if percent is not None:
        rows.append(_bar(percent, time_left_text(eta), width))
    rows.extend(_chips(progress, width))
    return Group(*rows)


def _bar(percent: float, rest: str, width: int) -> "RenderableType":
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    grid.add_column()
    grid.add_column(no_wrap=True)
    room = max(10, min(width - 11 - len(rest), 60))
    # Two decimals: of a step of ten minutes each second is seen.
    said = Text(f"{math.floor(percent * 100) / 100:6.2f} %{rest}")
    grid.add_row(ProgressBar(total=100, completed=percent, width=room), said)
    return grid


def _chips(progress: "Progress", width: int) -> "list[Text]":
    """Return rows of chips that fill the width, no chip broken."""
    from rich.text import Text

    full = len(progress.parts) <= FULL_NAMES
    chips = [chip(part, full=full) for part in progress.parts]
    longest = max((each.cell_len for each in chips), default=0) + 2
    per_row = max(1, width // max(1, longest))
    rows: list[Text] = []
    for start in range(0, len(chips), per_row):
        row = Text(no_wrap=True, overflow="ellipsis")
        for each in chips[start : start + per_row]:
            row.append_text(each)
            row.append(" " * (longest - each.cell_len))
        rows.append(row)
    return rows
