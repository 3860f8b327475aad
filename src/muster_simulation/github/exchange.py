"""A request to the small GitHub, and its answer."""

import json
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
