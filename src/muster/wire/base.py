"""What all shapes of the wire share: frozen, given by keyword, with an example. And errors: problem+json."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Generic, Self, TypeVar, dataclass_transform

import msgspec

from muster.domain.boot import Distribution

T = TypeVar("T")
Time = Annotated[datetime, msgspec.Meta(tz=True)]
"""With a zone, so that the document says date-time."""
EXAMPLE_TIME = "2026-05-04T09:30:00Z"
PAGE_MOST = 500
encode = msgspec.json.Encoder().encode
PROBLEM_TYPE = "application/problem+json"
_VALUE_MOST = 200


class _Frozen(msgspec.StructMeta):
    """Structs don't inherit `kw_only`; here every one has it."""

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> "_Frozen":
        options = {"frozen": True, "kw_only": True, **options}
        return super().__new__(mcs, name, bases, namespace, **options)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field,))
class Shape(msgspec.Struct, metaclass=_Frozen, frozen=True):
    EXAMPLE: ClassVar[Mapping[str, Any]] = {}


class Query(Shape):
    """Query parameters. They are text by nature, so numbers are read from it."""


class PageQuery(Query):
    """Which page of a list."""

    cursor: str | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=PAGE_MOST)] = 100


class AgentMessage(Shape, omit_defaults=True):
    """What an agent sends. The agent may be newer than its server, which leaves unknown fields aside."""


class Page(Shape, Generic[T]):
    items: tuple[T, ...]
    next: str | None = None
    """Where to go on; null: nothing more at present."""


class Spread(Shape):
    """How long something took, in seconds."""

    count: int
    p50: float
    p95: float

    @classmethod
    def of(cls, found: Distribution | None) -> Self | None:
        if found is None:
            return None
        return cls(count=found.count, p50=round(found.p50, 3), p95=round(found.p95, 3))


def convert(cls: type[T], source: object, /, **others: object) -> T:
    """Make a shape from a domain value, or a domain value from a shape.

    Fields of the same name are copied, nested ones too. Seconds become a time where `cls` says so. `others`
    are the fields that `source` lacks.
    """
    if others:
        names: tuple[str, ...] = getattr(cls, "__struct_fields__", None) or tuple(cls.__annotations__)
        own = {name: getattr(source, name) for name in names if name not in others and hasattr(source, name)}
        source = {**own, **others}
    return msgspec.convert(source, cls, strict=False, from_attributes=True)


def body_of(request: Shape) -> bytes:
    """Encode what a client asks. What has no value is left out: the server's default holds."""
    return encode(_given(msgspec.to_builtins(request)))


def _given(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _given(each) for name, each in value.items() if each is not None}
    return [_given(each) for each in value] if isinstance(value, list | tuple) else value


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


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
