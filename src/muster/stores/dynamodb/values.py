"""Encode values for DynamoDB, and records as items.

A record is kept whole as JSON in one attribute (`d`), beside the few attributes that keys, indexes and
conditions need. Long text is compressed, because every kilobyte is billed.
"""

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeVar

from muster.domain import serialization
from muster.domain.serialization import Plain

T = TypeVar("T")
Value = None | bool | int | float | str | bytes
Item = Mapping[str, Value]
Encoded = dict[str, dict[str, Any]]
Key = tuple[str, str]

LONG = 2048
"""Text beyond this is compressed."""

_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_DIGITS = 17
"""Of a time before its point: the order of the texts is then that of the times."""


def attribute(value: Value) -> dict[str, Any]:
    if value is None:
        return {"NULL": True}
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, (int, float)):
        # As DynamoDB spells it itself: a repeated call is then the same call to the letter.
        return {"N": str(value) if isinstance(value, int) else f"{Decimal(repr(value)).normalize():f}"}
    return {"B": value} if isinstance(value, bytes) else {"S": value}


def encoded(item: Item) -> Encoded:
    """Encode values, without those that are None: an index skips an item that lacks its key."""
    return {name: attribute(value) for name, value in item.items() if value is not None}


def decoded(item: Mapping[str, Mapping[str, Any]]) -> dict[str, Value]:
    return {name: _value(value) for name, value in item.items()}


def _value(attribute: Mapping[str, Any]) -> Value:
    ((kind, value),) = attribute.items()
    if kind == "N":
        return float(value) if any(mark in value for mark in ".eE") else int(value)
    if kind == "NULL":
        return None
    return value  # type: ignore[no-any-return]  # S, B and BOOL are what they say


def named(key: Key) -> Encoded:
    return {"PK": {"S": key[0]}, "SK": {"S": key[1]}}


def packed(data: Plain) -> str | bytes:
    text = _encoder.encode(data)
    return text if len(text) <= LONG else zlib.compress(text.encode())


def unpacked(value: Value) -> Any:
    return json.loads(zlib.decompress(value) if isinstance(value, bytes) else str(value))


def record(value: object, *, without: Sequence[str] = ()) -> str | bytes:
    data = serialization.fields_to_plain(value)
    for name in without:
        del data[name]
    return packed(data)


def restored(cls: type[T], item: Item) -> T:
    return serialization.from_plain(cls, unpacked(item["d"]))


def moment(at: float, name: str = "") -> str:
    """Return a time as text that sorts like it. With a name, equal times have an order too."""
    return f"{max(at, 0.0):0{_DIGITS}.6f}#{name}"


def number(item: Item, name: str) -> float | None:
    value = item.get(name)
    return None if value is None else float(value)


def whole(item: Item, name: str, default: int = 0) -> int:
    value = item.get(name)
    return default if value is None else int(value)


def text(item: Item, name: str) -> str:
    return str(item[name])


def key_of(item: Item) -> Key:
    return text(item, "PK"), text(item, "SK")


Refusal = Callable[[Item | None], Exception]
"""Makes an error of the item as it was when its condition failed; None: there was none."""
