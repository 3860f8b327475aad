"""Draw small charts in plain characters: the phases of a boot, and the distribution of boot times."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from muster.cli.durations import format_taken
from muster.domain.text import counted

if TYPE_CHECKING:
    from muster.domain.boot import Span
    from muster.wire.boots import BootKind, Timeline

WIDTH = 30
"""Of the longest bar."""
NAME_MOST = 40
LINES_MOST = 24
"""Of one timeline: a script that names a step for every package would fill the screen."""
BLOCKS = " ▏▎▍▌▋▊▉█"
MARKS = "▁▂▃▄▅▆▇█"


def timeline(found: "Timeline") -> list[str]:
    """Return one line per phase: its name, its duration, and a bar that starts where the phase did."""
    if not found.spans:
        return []
    total = max(sum(span.seconds for span in found.spans), 0.001)
    shown = _folded([(_short(span.name), span.seconds) for span in found.spans])
    width = max(len(name) for name, _ in shown)
    lines, passed = [], 0.0
    for name, seconds in shown:
        indent = round(WIDTH * passed / total)
        bar = " " * indent + _bar(seconds / total)
        lines.append(f"{name.ljust(width)}  {format_taken(seconds):>8}  {bar}".rstrip())
        passed += seconds
    usual = found.usual
    if usual is not None:
        lines.append(
            f"{'in all'.ljust(width)}  {format_taken(found.seconds):>8}  usually {format_taken(usual.p50)}, "
            f"p99 {format_taken(usual.p99)} (of {usual.count})"
        )
    else:
        lines.append(f"{'in all'.ljust(width)}  {format_taken(found.seconds):>8}")
    return lines


def _folded(spans: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Return the first and the last phases, with the ones between as one."""
    if len(spans) <= LINES_MOST:
        return spans
    first, last = LINES_MOST // 2, LINES_MOST - LINES_MOST // 2 - 1
    between = spans[first : len(spans) - last]
    return [*spans[:first], (f"… {len(between)} more", sum(s for _, s in between)), *spans[-last:]]


def boots(kind: "BootKind") -> list[str]:
    total = kind.total
    spread = (
        f"{kind.instance_type}: p50 {format_taken(total.p50)} · p95 {format_taken(total.p95)} "
        f"· p99 {format_taken(total.p99)} · longest {format_taken(total.longest)} "
        f"({counted(total.count, 'boot')})"
    )
    lines = [
        spread,
        f"last {len(kind.last)}: {sparkline([each.seconds for each in reversed(kind.last)])}",
        f"deadline {format_taken(kind.deadline.seconds)} ({kind.deadline.source})",
    ]
    if kind.learned is not None:
        lines.append(f"learned {format_taken(kind.learned.seconds)} ({kind.learned.basis})")
    return [*lines, *(f"  {each}" for each in phases(kind.phases))]


def phases(spans: "Sequence[Span]") -> list[str]:
    longest = max((span.seconds for span in spans), default=0.0) or 1.0
    width = max((len(_short(span.name)) for span in spans), default=0)
    return [
        f"{_short(span.name).ljust(width)}  {format_taken(span.seconds):>8}  "
        f"{_bar(span.seconds / longest)}".rstrip()
        for span in spans
    ]


def sparkline(seconds: Sequence[float]) -> str:
    """Return a row of marks, oldest first, each relative to the longest."""
    longest = max(seconds, default=0.0) or 1.0
    return "".join(MARKS[min(len(MARKS) - 1, int(each / longest * len(MARKS)))] for each in seconds)


def _bar(share: float) -> str:
    eighths = max(1, round(min(share, 1.0) * WIDTH * 8)) if share > 0 else 0
    return BLOCKS[-1] * (eighths // 8) + BLOCKS[eighths % 8].strip()


def _short(name: str) -> str:
    return name if len(name) <= NAME_MOST else f"{name[: NAME_MOST - 1]}…"
