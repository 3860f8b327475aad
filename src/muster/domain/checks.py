"""Checks of values where they enter. Each raises InvalidRequest naming the field, the value and the rule."""

import re
from collections.abc import Collection, Mapping
from enum import StrEnum

from muster.domain.errors import InvalidRequest
from muster.domain.serialization import Plain, to_plain

NAME_MAX = 63
PATTERN_MAX = 30
"""Characters in a pattern of instance types: what clouds take."""
RUN_MAX = 256
KEY_MAX = 128
COUNT_MAX = 1000
"""One request's largest gang. A provider call answers for all of them at once, and one page shows them."""
SECONDS_MAX = 30 * 86400.0
TOKEN_MAX = 10 * 365 * 86400.0
"""Ten years: longer, and it is for ever, which has its own word."""
MACHINES_MAX = 1_000_000
SCRIPT_MAX = 64 * 1024
"""A boot script travels in every revision and its event; anything longer is fetched by the script itself."""

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?", re.ASCII)
_CLUSTER_NAME = re.compile(r"[a-z0-9](?:[a-z0-9_-]*[a-z0-9])?", re.ASCII | re.IGNORECASE)
_PATTERN = re.compile(r"[a-z0-9*][a-z0-9.*-]*", re.ASCII)
_UNWRITABLE = re.compile("[\0\ud800-\udfff]")


def matching(field: str, value: object, form: re.Pattern[str], rule: str, *, longest: int = 2048) -> str:
    """Check a text against a regular expression. `rule` says in words what it asks for."""
    if not isinstance(value, str) or len(value) > longest or not form.fullmatch(value):
        raise InvalidRequest(field, value, rule)
    return value


def name(field: str, value: object) -> str:
    rule = f"must be 1 to {NAME_MAX} lower-case letters, digits or inner hyphens"
    return matching(field, value, _NAME, rule, longest=NAME_MAX)


def cluster_name(field: str, value: object) -> str:
    rule = (
        f"must be 1 to {NAME_MAX} letters, digits, hyphens or underscores,"
        " and begin and end with a letter or digit"
    )
    return matching(field, value, _CLUSTER_NAME, rule, longest=NAME_MAX)


def text(field: str, value: object, *, longest: int = RUN_MAX) -> str:
    """Check an id or label that a caller made up: printable, not blank at either end, bounded."""
    rule = f"must be 1 to {longest} printable characters without leading or trailing blanks"
    if not isinstance(value, str) or not 0 < len(value) <= longest:
        raise InvalidRequest(field, value, rule)
    if not value.isprintable() or value != value.strip():
        raise InvalidRequest(field, value, rule)
    return value


def whole(field: str, value: object, *, least: int, most: int) -> int:
    # bool is an int in Python, and "3" is not: both are mistakes of the caller.
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidRequest(field, value, f"must be a whole number from {least} to {most}")
    return value


def seconds(field: str, value: object, *, zero: bool = False, most: float = SECONDS_MAX) -> float:
    """A duration. Zero only where it has a meaning of its own."""
    rule = f"must be a number of seconds {'from' if zero else 'above'} 0, at most {most:.0f}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidRequest(field, value, rule)
    # NaN compares false with everything, so the test is written to refuse it.
    if not (0 <= value <= most) or (value == 0 and not zero):
        raise InvalidRequest(field, value, rule)
    return float(value)


def share(field: str, value: object) -> float:
    """A part of a whole: 0 is none of it, 1 is all."""
    # NaN is refused as in `seconds`.
    if isinstance(value, bool) or not isinstance(value, int | float) or not (0 <= value <= 1):
        raise InvalidRequest(field, value, "must be a number from 0 to 1")
    return float(value)


def flag(field: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidRequest(field, value, "must be true or false")
    return value


def known(field: str, value: object, names: Collection[str]) -> str:
    if not isinstance(value, str) or value not in names:
        raise InvalidRequest(field, value, f"must be one of {', '.join(names)}")
    return value


def word(field: str, value: object, kind: type[StrEnum]) -> None:
    """A word of an enum. A plain string is refused: it would be equal to the word, but not identical."""
    if not isinstance(value, kind):
        raise InvalidRequest(field, value, f"must be one of {', '.join(kind)}")


def words(field: str, value: object, kind: type[StrEnum]) -> None:
    """Words of an enum in order of preference, each at most once, and at least one."""
    rule = f"must name at least one of {', '.join(kind)}, and each at most once"
    if not isinstance(value, tuple) or not value or not all(isinstance(item, kind) for item in value):
        raise InvalidRequest(field, value, rule)
    if len(dict.fromkeys(value)) != len(value):
        raise InvalidRequest(field, value, rule)


def script(field: str, value: object) -> str:
    rule = f"must be text of at most {SCRIPT_MAX} characters that a file can hold (no NUL, no lone surrogate)"
    if not isinstance(value, str) or len(value) > SCRIPT_MAX or _UNWRITABLE.search(value):
        raise InvalidRequest(field, value, rule)
    return value


def patterns(field: str, value: object) -> tuple[str, ...]:
    """Wildcard patterns of instance types, lower-cased: `*` is any run of characters."""
    rule = (
        "must be a list of patterns like 'c*' or 'm5.large': "
        f"letters, digits, dots, hyphens and *, at most {PATTERN_MAX} of them each"
    )
    if not isinstance(value, tuple) or not value or len(value) > NAME_MAX:
        raise InvalidRequest(field, value, rule)
    lowered = tuple(item.lower() if isinstance(item, str) else "" for item in value)
    if not all(len(item) <= PATTERN_MAX and _PATTERN.fullmatch(item) for item in lowered):
        raise InvalidRequest(field, value, rule)
    return lowered


def tables(value: object, *, taken: Collection[str]) -> dict[str, Plain]:
    """Return the tables of integrations as plain data. `taken`: names that are no table's."""
    if not isinstance(value, Mapping):
        raise InvalidRequest("tables", value, "must be tables, by their names")
    plain = {name: to_plain(table) for name, table in value.items() if table is not None}
    for name, table in plain.items():
        if name in taken or not isinstance(table, Mapping):
            raise InvalidRequest("tables", name, "must be tables of integrations, by their names")
    return plain
