"""Describe what is wrong with an input: the field, its value, and a rule that says what to send.

This module owns the one table from types to sentences. It sees only input that the decoder refused, so it
may be slow.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from msgspec import inspect

from muster.wire.base import shown

MISSING = "it is missing"
NOT_TEXT = "must be text that UTF-8 can hold"
WHOLE = "must be a whole number, not text or a fraction"
DIGITS_MOST = 4300
"""Python reads no number that is longer."""
_DIGITS, _PLAIN = re.compile(r"-?[0-9]+"), re.compile(r"[-+.0-9A-Za-z]+")
FLAGS = ("0", "1", "true", "false")
_NOTHING = object()


@dataclass(frozen=True, slots=True)
class InputError:
    field: str
    rule: str
    value: Any = _NOTHING

    def told(self) -> dict[str, Any]:
        """Return the error as a problem shows it. Objects, lists and missing values have no short value."""
        found: dict[str, Any] = {"field": self.field or "body", "rule": self.rule}
        if self.value is not _NOTHING and not isinstance(self.value, Mapping | list):
            found["value"] = shown(self.value)
        return found


def find_input_errors(
    kind: inspect.Type, value: Any, field: str = "", *, text: bool = False
) -> Iterator[InputError]:
    """Yield everything that keeps `value` from being of this kind.

    `text`: numbers and flags are given as text, as in a query.
    """
    if isinstance(kind, inspect.UnionType):
        if value is None and any(isinstance(each, inspect.NoneType) for each in kind.types):
            return
        kind = next(each for each in kind.types if not isinstance(each, inspect.NoneType))
    if isinstance(kind, inspect.StructType):
        yield from _of_struct(kind, value, field, text=text)
    elif isinstance(kind, inspect.DictType):
        if not isinstance(value, Mapping):
            yield InputError(field, "must be a JSON object", value)
            return
        for key, each in value.items():
            yield from find_input_errors(kind.key_type, key, _under(field, key))
            yield from find_input_errors(kind.value_type, each, _under(field, key), text=text)
    elif isinstance(kind, inspect.VarTupleType):
        yield from _of_list(kind, value, field, text=text)
    else:
        rule = _rule(kind, value, text=text)
        if rule is not None:
            yield InputError(field, rule, value)


def _of_struct(kind: inspect.StructType, value: Any, field: str, *, text: bool) -> Iterator[InputError]:
    if not isinstance(value, Mapping):
        yield InputError(field, "must be a JSON object", value)
        return
    known = {each.encode_name: each for each in kind.fields}
    for name, each in known.items():
        if name in value:
            yield from find_input_errors(each.type, value[name], _under(field, name), text=text)
        elif each.required:
            yield InputError(_under(field, name), MISSING)
    if kind.forbid_unknown_fields:
        for name in value:
            if name not in known:
                close = get_close_matches(str(name), known, 1)
                hint = f"did you mean {close[0]}?" if close else "check its spelling"
                yield InputError(_under(field, name), f"there is no such field; {hint}", value[name])


def _of_list(kind: inspect.VarTupleType, value: Any, field: str, *, text: bool) -> Iterator[InputError]:
    if not isinstance(value, list):
        yield InputError(field, "must be a list", value)
    elif kind.max_length is not None and len(value) > kind.max_length:
        yield InputError(field, f"must have at most {kind.max_length} items", value)
    else:
        for number, each in enumerate(value):
            yield from find_input_errors(kind.item_type, each, _under(field, number), text=text)


def _rule(kind: inspect.Type, value: Any, *, text: bool) -> str | None:
    match kind:
        case inspect.StrType():
            return _rule_of_text(kind, value)
        case inspect.EnumType():
            words = [str(each.value) for each in kind.cls]
            return None if value in words else f"must be one of {', '.join(words)}"
        case inspect.BoolType():
            fits = value.lower() in FLAGS if text else isinstance(value, bool)
            return None if fits else "must be true or false"
        case inspect.IntType():
            return _rule_of_whole(kind, value, text=text)
        case inspect.FloatType():
            return _rule_of_number(kind, value, text=text)
        case _:
            return None


def _rule_of_text(kind: inspect.StrType, value: Any) -> str | None:
    if not isinstance(value, str):
        return "must be text"
    try:
        value.encode()
    except UnicodeEncodeError:
        return NOT_TEXT
    if kind.max_length is not None and len(value) > kind.max_length:
        return f"must have at most {kind.max_length} characters"
    return None


def _rule_of_whole(kind: inspect.IntType, value: Any, *, text: bool) -> str | None:
    if text and value.removeprefix("-").isdecimal() and len(value) > DIGITS_MOST:
        return "must be a whole number with fewer digits"
    if text:
        if _DIGITS.fullmatch(value) is None:
            return WHOLE  # int() takes blanks, underscores and digits of any script
        value = int(value)
    elif isinstance(value, bool) or not isinstance(value, int):
        return WHOLE
    return _rule_of_bounds(kind, value)


def _rule_of_number(kind: inspect.FloatType, value: Any, *, text: bool) -> str | None:
    if text and _PLAIN.fullmatch(value) is None:
        return "must be a number"  # as above
    try:
        number = float(value) if text or not isinstance(value, bool | str) else None
    except (TypeError, ValueError):
        number = None
    except OverflowError:
        number = math.inf
    if number is None:
        return "must be a number"
    return _rule_of_bounds(kind, number) if math.isfinite(number) else "must be a finite number"


def _rule_of_bounds(kind: inspect.IntType | inspect.FloatType, value: float) -> str | None:
    if kind.ge is not None and value < kind.ge:
        return f"must be at least {kind.ge}"
    if kind.le is not None and value > kind.le:
        return f"must be at most {kind.le}"
    return None


def _under(field: str, name: object) -> str:
    return f"{field}.{name}" if field else str(name)
