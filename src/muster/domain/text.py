"""What a person would have seen of text that was written for a terminal. Owns what counts as an escape."""

import re

_ESCAPES = re.compile(
    r"\x1b++(?:\[[0-9;?]{0,20}[ -/]{0,4}[@-~]|\][^\x07\x1b\n]{0,300}(?:\x07|\x1b\\)"
    r"|[ -/]{1,4}[0-~]|[@-Z\\-_])?"
)


def without_escapes(text: str) -> str:
    """Remove colours, titles and movements: no escape is left, not even half a one."""
    return _ESCAPES.sub("", text) if "\x1b" in text else text


_COLOUR = re.compile(r"(\x1b\[[0-9;:]{0,40}m)")
_RESET = "\x1b[0m"
_CONTROLS = {
    **{code: f"^{chr(code ^ 0x40)}" for code in (*range(0x20), 0x7F) if chr(code) not in "\t\n"},
    **dict.fromkeys(range(128, 160), "�"),
}


def harmless(text: str) -> str:
    """Make text harmless for a terminal: colours work until the end of their line, nothing else takes effect.

    Removes titles, movements, clipboard writes and other escapes. Shows other control characters (^G). Keeps
    the last state of a progress bar.
    """
    return "\n".join(map(_harmless_line, text.split("\n")))


def _harmless_line(line: str) -> str:
    parts = _COLOUR.split(line.rstrip("\r").rpartition("\r")[2])
    parts[::2] = [without_escapes(each).translate(_CONTROLS) for each in parts[::2]]
    return "".join(parts) + (_RESET if len(parts) > 1 else "")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 node`, `2 nodes`, `0 nodes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


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
