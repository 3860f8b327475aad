"""A request to the small GitHub, and its answer or fault."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    method: str
    path: str
    query: Mapping[str, str]
    authorization: str
    scheme: str
    """The word before the authorization: Bearer, RemoteAuth."""
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    status: int
    data: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    marked: bool = False
    """The body begins with a byte order mark."""

    @property
    def body(self) -> bytes:
        if self.data is None:
            return b""
        return (b"\xef\xbb\xbf" if self.marked else b"") + json.dumps(self.data).encode()


Handler = Callable[..., Said]


@dataclass(slots=True, kw_only=True)
class Fault:
    """What goes wrong with the next requests that look like its pattern."""

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
