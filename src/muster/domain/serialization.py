"""Values as plain data (what JSON can hold) and back, for stores and the event feed.

Owns the encoding of frozen dataclasses: field by field, enums by value, tuples as lists. Types are
taken from the annotations once per class, so that decoding a row costs no reflection.
"""

import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from operator import attrgetter
from typing import Any, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

Plain = None | bool | int | float | str | Sequence["Plain"] | Mapping[str, "Plain"]
T = TypeVar("T")


def to_plain(value: object) -> Plain:
    if value is None or type(value) in (str, int, float, bool):
        return value  # type: ignore[return-value]  # narrowed by the exact type test
    if isinstance(value, Enum):
        return value.value  # type: ignore[no-any-return]  # all enums here are StrEnum
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    if is_dataclass(value):
        return fields_to_plain(value)
    if isinstance(value, Mapping):
        return {name: to_plain(item) for name, item in value.items()}
    raise TypeError(f"cannot encode {type(value).__name__}")


def fields_to_plain(value: object) -> dict[str, Plain]:
    cls = type(value)
    found = {name: to_plain(getattr(value, name)) for name in field_names(cls)}
    flat = _flat(cls)
    if flat is not None:
        found |= found.pop(flat)  # type: ignore[arg-type]  # FLAT is for mappings
    return found


def changed(before: object | None, after: object) -> dict[str, Plain]:
    """Return the fields in which two values of one class differ; all of them if there is no before."""
    if before is None:
        return fields_to_plain(after)
    return {name: to_plain(value) for name, value in differing(before, after)}


def differing(before: T, after: T) -> Iterator[tuple[str, Any]]:
    """Return the fields in which two values of one class differ, each with its new value."""
    cls = type(after)
    for name, old, new in zip(field_names(cls), _values(cls)(before), _values(cls)(after), strict=True):
        if old is not new and old != new:
            yield name, new


def from_plain(cls: type[T], data: Mapping[str, Plain], **given: object) -> T:
    """Build a value from plain data. `given`: fields that are decoded already."""
    decoders = _decoders(cls)
    flat = _flat(cls)
    if flat is not None and flat not in given:
        given[flat] = {
            name: value for name, value in data.items() if name not in decoders and value is not None
        }
    return cls(**{name: decode(data[name]) for name, decode in decoders.items() if name in data}, **given)


FLAT = {"flat": True}
"""Metadata of a field that is a mapping of plain data: its keys stand beside the other fields."""
_names: dict[Any, tuple[str, ...]] = {}
_flats: dict[Any, str | None] = {}
_getters: dict[Any, Callable[[Any], tuple[Any, ...]]] = {}
_known: dict[Any, dict[str, Callable[[Any], Any]]] = {}


def field_names(cls: Any) -> tuple[str, ...]:
    if cls not in _names:
        _names[cls] = tuple(field.name for field in fields(cls))
    return _names[cls]


def _flat(cls: Any) -> str | None:
    if cls not in _flats:
        _flats[cls] = next((each.name for each in fields(cls) if each.metadata.get("flat")), None)
    return _flats[cls]


def _values(cls: Any) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that reads all fields of a value in one call."""
    if cls not in _getters:
        names = field_names(cls)
        # Of a single name, an attrgetter gives the bare value.
        _getters[cls] = attrgetter(*names) if len(names) > 1 else lambda value: (getattr(value, names[0]),)
    return _getters[cls]


def _decoders(cls: Any) -> dict[str, Callable[[Any], Any]]:
    if cls not in _known:
        hints = get_type_hints(cls)
        _known[cls] = {name: decoder(hints[name]) for name in field_names(cls)}
    return _known[cls]


def _same(value: Any) -> Any:
    return value


def bare(hint: Any) -> Any:
    """Return the type itself, without `| None` and NewType."""
    if isinstance(hint, NewType):
        return bare(hint.__supertype__)
    inner = [option for option in get_args(hint) if option is not type(None)]
    optional = get_origin(hint) in (Union, types.UnionType) and len(inner) == 1
    return bare(inner[0]) if optional else hint


def decoder(hint: Any) -> Callable[[Any], Any]:
    """Return the function that builds a value of this type from plain data."""
    if isinstance(hint, NewType):
        return decoder(hint.__supertype__)
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _optional(get_args(hint))
    if origin is tuple:
        item = decoder(get_args(hint)[0])
        return lambda value: tuple(item(each) for each in value)
    if isinstance(hint, type) and issubclass(hint, Enum):
        # A dict look-up is several times faster than calling the enum class.
        return {member.value: member for member in hint}.__getitem__
    if is_dataclass(hint):
        return lambda value: from_plain(hint, value)  # type: ignore[arg-type]  # a class, not an instance
    if hint is float:
        return float
    return _same


def _optional(options: tuple[Any, ...]) -> Callable[[Any], Any]:
    """Return a decoder for `X | None`, or for one of several dataclasses told apart by their fields."""
    inner = [option for option in options if option is not type(None)]
    if len(inner) == 1:
        decode = decoder(inner[0])
        return lambda value: None if value is None else decode(value)
    by_fields = {frozenset(field_names(option)): option for option in inner}
    flat = [(frozenset(field_names(each)) - {_flat(each)}, each) for each in inner if _flat(each)]

    def told_apart(value: Any) -> Any:
        names = frozenset(value)
        option = by_fields.get(names) or next(each for own, each in flat if own <= names)
        return from_plain(option, value)

    return told_apart
