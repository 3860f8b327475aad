"""Read durations of options, and print durations (90s, 30m, 1h 05m)."""

import typer

from muster.domain.text import LONGEST, seconds_of

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def parse_duration(text: str) -> float:
    """Parse a duration of an option into seconds. Raises a usage error that says how to write it."""
    found = seconds_of(text)
    if found is not None:
        return found
    given = text.strip()
    shown = given if len(given) <= LONGEST else given[:LONGEST] + "…"
    raise typer.BadParameter(f"{shown!r} is not a duration: write seconds like 90, or 90s, 30m, 2h")


def format_clock(value: float) -> str:
    """Format a duration that still runs: `0m 12s`, `1h 05m`."""
    whole = int(max(0.0, value))
    if whole < _HOUR:
        return f"{whole // _MINUTE}m {whole % _MINUTE:02d}s"
    return f"{whole // _HOUR}h {whole % _HOUR // _MINUTE:02d}m"


def format_taken(value: float) -> str:
    """Format a duration that is over: `0.04 s`, `4.1 s`, `2m 03s`."""
    if value < 0.1:  # noqa: PLR2004 — two digits that say something
        return f"{value:.2f} s"
    return f"{value:.1f} s" if value < _MINUTE else format_clock(value)


def format_estimate(value: float) -> str:
    """Format an estimate, at least one second: `12 s`, `2m 05s`."""
    whole = max(1, round(value))
    return f"{whole} s" if whole < _MINUTE else format_clock(whole)


def format_rough(value: float) -> str:
    """Format in one unit, for tables: `12s`, `5m`, `3h`, `2d`."""
    whole = int(max(0.0, value))
    for unit, size in (("d", _DAY), ("h", _HOUR), ("m", _MINUTE)):
        if whole >= size:
            return f"{whole // size}{unit}"
    return f"{whole}s"
