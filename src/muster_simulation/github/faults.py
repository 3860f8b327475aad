"""What goes wrong, on demand: each fault is for the next requests that look like its pattern."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class Fault:
    pattern: str
    """Of `METHOD path`, anywhere in it."""
    status: int = 0
    """What is answered; 0: nothing, the connection breaks."""
    message: str = "scripted"
    body: object = None
    """What is answered instead of the message."""
    headers: Mapping[str, str] = field(default_factory=dict)
    performed: bool = False
    """It happens all the same, and only the answer is lost."""
    times: int = 1

    def takes(self, method: str, path: str) -> bool:
        if self.times < 1 or not re.search(self.pattern, f"{method} {path}"):
            return False
        self.times -= 1
        return True


class Lost(Exception):
    """No answer: the connection breaks."""
