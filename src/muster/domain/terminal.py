"""What a person would have seen of text that was written for a terminal. Owns what counts as an escape."""

import re

_ESCAPES = re.compile(
    r"\x1b++(?:\[[0-9;?]{0,20}[ -/]{0,4}[@-~]|\][^\x07\x1b\n]{0,300}(?:\x07|\x1b\\)"
    r"|[ -/]{1,4}[0-~]|[@-Z\\-_])?"
)


def without_escapes(text: str) -> str:
    """Without colours, titles and movements: no escape is left, not even half a one."""
    return _ESCAPES.sub("", text) if "\x1b" in text else text
