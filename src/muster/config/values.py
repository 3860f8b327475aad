"""Check single values of the settings file. Each check returns the value to use, or raises InvalidRequest.

The core and every integration use them for their tables.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, get_type_hints
from urllib.parse import urlsplit

from muster.domain import checks
from muster.domain.errors import InvalidRequest
from muster.domain.serialization import bare, field_names
from muster.domain.text import seconds_of

Check = Callable[[str, object], object]
"""Gives the value to use, or raises InvalidRequest naming the field."""
text: Check = checks.text
script: Check = checks.script
identifier: Check = checks.name
SECRET_MOST = 65_536
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def whole(least: int, most: int) -> Check:
    return lambda name, value: checks.whole(name, value, least=least, most=most)


def duration(*, zero: bool = False, most: float = checks.SECONDS_MAX) -> Check:
    """Take seconds as a number, or a duration as text: `idle_timeout = "30m"`."""
    return lambda name, value: checks.seconds(name, _plain_seconds(name, value), zero=zero, most=most)


def seconds(name: str, value: object) -> object:
    return duration()(name, value)


def _plain_seconds(name: str, value: object) -> object:
    if not isinstance(value, str):
        return value
    found = seconds_of(value)
    if found is None:
        raise InvalidRequest(name, value, 'must be a number of seconds, or a duration like "30m" or "1h30m"')
    return found


def one_of(kind: type[StrEnum]) -> Check:
    return lambda name, value: kind(checks.known(name, value, tuple(kind)))


def known(*words: str) -> Check:
    return lambda name, value: checks.known(name, value, words)


def secret(name: str, value: object) -> object:
    return checks.text(name, value, longest=4096)


def text_or_number(name: str, value: object) -> object:
    return checks.text(name, str(value) if type(value) is int else value)


def path(name: str, value: object) -> object:
    return Path(checks.text(name, value, longest=4096)).expanduser()


def url(name: str, value: object) -> object:
    parts = urlsplit(checks.text(name, value, longest=2048))
    try:
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment or parts.username:
        raise InvalidRequest(name, value, "must be a URL like https://muster.example.com:8420")
    return str(value).rstrip("/")


def strings(name: str, value: object) -> object:
    if not isinstance(value, list):
        raise InvalidRequest(name, value, "must be a list")
    return tuple(value)


def texts(name: str, value: object) -> object:
    if not isinstance(value, list):
        raise InvalidRequest(name, value, "must be a list of texts")
    return tuple(checks.text(name, each) for each in value)


def of_fields(kind: type, given: Mapping[str, Check], *left_out: str) -> Mapping[str, Check]:
    """Return the check of each field of a dataclass: as given, else as its type says."""
    hints = get_type_hints(kind)
    found = {}
    for name in field_names(kind):
        check = given.get(name) or _of_type(hints[name])
        if name in left_out:
            continue
        if check is None:
            raise TypeError(f"{kind.__name__}.{name} needs a check: its type does not tell what is allowed")
        found[name] = check
    return found


def _of_type(hint: Any) -> Check | None:
    """Return the check of a field of this type. None: the type does not tell what is allowed."""
    kind = bare(hint)
    return one_of(kind) if isinstance(kind, type) and issubclass(kind, StrEnum) else _BY_TYPE.get(kind)


_BY_TYPE: Mapping[Any, Check] = {
    bool: checks.flag,
    float: seconds,
    str: text,
    Path: path,
    tuple[str, ...]: texts,
}


def read_secret(name: str, path: Path) -> str:
    """Return what a file of one secret holds. Raises InvalidRequest, which never shows the content."""
    try:
        with path.open(encoding="ascii") as file:
            found = file.read(SECRET_MOST).strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not plain text"
        raise InvalidRequest(name, str(path), f"must be a file that can be read: {why}") from error
    if not found:
        raise InvalidRequest(name, str(path), "must not be empty")
    return found
