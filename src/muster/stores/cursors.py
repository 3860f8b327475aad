"""Encode and decode opaque cursors: where a list continues.

A cursor names its list and has a checksum. So a cursor of another list or store, or with a typing error, is
refused instead of silently skipping records.
"""

import base64
import binascii
import json
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from muster.domain.errors import InvalidRequest
from muster.ports.store import Cursor, Page

_WHOLE_MOST = (1 << 63) - 1
"""A store's integer ends there."""
REMEMBERED = 256
"""Cursors that were made last. Most come back at once: a follower of the feed asks for what came after."""
_made: dict[str, list[Any]] = {}
_encoder = json.JSONEncoder(separators=(",", ":"))
_RULE = "must be a cursor that this list gave; leave it out to start from the beginning"


class Dated(Protocol):
    """A record that lists order by its age."""

    @property
    def id(self) -> str: ...
    @property
    def created_at(self) -> float: ...


T = TypeVar("T")
R = TypeVar("R", bound=Dated)
Place = tuple[float | str, ...]
Age = tuple[float, str]


def encode(kind: str, *place: float | str) -> Cursor:
    body = _encoder.encode([kind, *place]).encode()
    cursor = _text(zlib.crc32(body).to_bytes(4, "big") + body)
    if len(_made) >= REMEMBERED:
        _made.clear()
    _made[cursor] = [kind, *place]
    return Cursor(cursor)


def decode(kind: str, cursor: Cursor, *types: type) -> tuple[Any, ...]:
    place = _made.get(cursor) or _opened(cursor)
    if place is None or len(place) != len(types) + 1 or place[0] != kind:
        raise InvalidRequest("cursor", cursor, _RULE)
    if not all(_fits(value, cls) for value, cls in zip(place[1:], types, strict=True)):
        raise InvalidRequest("cursor", cursor, _RULE)
    return tuple(place[1:])


def age(record: Dated) -> Age:
    return record.created_at, record.id


def page(found: Sequence[T], limit: int, kind: str, *, place: Callable[[Any], Place] = age) -> Page[T]:
    """Return the first `limit` of what was found, and where to go on if there is more.

    `place` says where a record is in the list: newest first, if nothing else is said.
    """
    items = tuple(found[:limit])
    return Page(items=items, next=encode(kind, *place(items[-1])) if len(found) > limit else None)


def _fits(value: object, cls: type) -> bool:
    if isinstance(value, int) and (isinstance(value, bool) or not 0 <= value <= _WHOLE_MOST):
        return False
    return isinstance(value, cls)


def _text(sealed: bytes) -> str:
    return base64.urlsafe_b64encode(sealed).decode().rstrip("=")


def _opened(cursor: str) -> list[Any] | None:
    try:
        sealed = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        body = sealed[4:]
        # The last digit has spare bits: only the text that we make is a cursor, no other spelling of it.
        if zlib.crc32(body).to_bytes(4, "big") != sealed[:4] or _text(sealed) != cursor:
            return None
        place = json.loads(body)
    except (binascii.Error, ValueError, RecursionError):
        return None
    return place if isinstance(place, list) else None
