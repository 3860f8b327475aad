"""Read durations as people write them: 90, 90s, 30m, 2h, 1h30m. The one parser for options and settings."""

import re

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)
_WHOLE = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+", re.ASCII)
_PLAIN = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
LONGEST = 40


def seconds_of(text: str) -> float | None:
    """Return a duration in seconds; None: the text is no duration."""
    given = text.strip()
    if len(given) > LONGEST:
        return None
    if _PLAIN.fullmatch(given):
        return float(given)
    if _WHOLE.fullmatch(given):
        return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(given))
    return None
