"""Errors: RFC 9457 problem+json."""

import math
from typing import Any

from muster.wire.base import Shape

MEDIA_TYPE = "application/problem+json"
_VALUE_MOST = 200


class Problem(Shape):
    """What could not be done, why, and what to do. Some codes have more fields than these."""

    EXAMPLE = {
        "type": "/codes#not_found",
        "title": "Not found",
        "status": 404,
        "code": "not_found",
        "detail": "cannot find operation 'op-1'",
    }

    type: str
    title: str
    status: int
    code: str
    """What to branch on."""
    detail: str
    """What could not be done, why, and what to do."""
    field: str | None = None
    value: Any = None
    """What was sent there, if it can be shown."""
    rule: str | None = None


def shown(value: object) -> str | int | float | bool | None:
    """Return a value as the caller sent it, if it is short and JSON can express it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) < 1 << 53:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    try:
        text = value if isinstance(value, str) else repr(value)
    except ValueError:
        text = f"<{type(value).__name__} too long to show>"
    return text if len(text) <= _VALUE_MOST else text[:_VALUE_MOST] + "…"
