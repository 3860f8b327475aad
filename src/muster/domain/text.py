"""What a person would have seen of text that was written for a terminal. Owns what counts as an escape."""

import re

_ESCAPES = re.compile(
    r"\x1b++(?:\[[0-9;?]{0,20}[ -/]{0,4}[@-~]|\][^\x07\x1b\n]{0,300}(?:\x07|\x1b\\)"
    r"|[ -/]{1,4}[0-~]|[@-Z\\-_])?"
)


def without_escapes(text: str) -> str:
    """Without colours, titles and movements: no escape is left, not even half a one."""
    return _ESCAPES.sub("", text) if "\x1b" in text else text


_COLOUR = re.compile(r"(\x1b\[[0-9;:]{0,40}m)")
_RESET = "\x1b[0m"
_CONTROLS = {
    **{code: f"^{chr(code ^ 0x40)}" for code in (*range(0x20), 0x7F) if chr(code) not in "\t\n"},
    **dict.fromkeys(range(128, 160), "�"),
}


def harmless(text: str) -> str:
    """The text for a terminal: colours work until the end of their line, and nothing else takes effect.

    Titles, movements, clipboard writes and other escapes are gone. Other control characters are shown (^G).
    Of what a progress bar wrote over itself the last is left."""
    return "\n".join(map(_harmless_line, text.split("\n")))


def _harmless_line(line: str) -> str:
    parts = _COLOUR.split(line.rstrip("\r").rpartition("\r")[2])
    parts[::2] = [without_escapes(each).translate(_CONTROLS) for each in parts[::2]]
    return "".join(parts) + (_RESET if len(parts) > 1 else "")


def counted(number: int, noun: str) -> str:
    """`1 node`, `2 nodes`, `0 nodes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
