"""Read the settings file: each value with its place, so that an error can name the line."""

import re
import tomllib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from muster.domain.errors import InvalidRequest

_HEADER = re.compile(r"^\s*\[\[?\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(
    r"""^\s*((?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+))*)\s*="""
)
_MULTILINE = ('"""', "'''")


class ConfigError(InvalidRequest):
    """A setting that can't be used: says where it stands and what is wrong with it."""

    def __init__(self, field: str, value: object, rule: str, where: str) -> None:
        super().__init__(field, value, rule)
        self.where = where

    def __str__(self) -> str:
        return f"cannot use {self.where}: {self.rule}"


class UnknownSetting(ConfigError):
    """A setting that does not exist. What else its table says can be looked at without it."""


class ConfigErrors(ConfigError):
    """Several settings that can't be used, told together."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        first = errors[0]
        super().__init__(first.field, first.value, first.rule, first.where)
        self.errors = tuple(errors)

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self.errors)


class ErrorCollector:
    """Collect errors, so that all of them are told at once."""

    def __init__(self) -> None:
        self._errors: list[ConfigError] = []

    @contextmanager
    def gathered(self) -> Iterator[None]:
        try:
            yield
        except ConfigErrors as several:
            self._errors += several.errors
        except ConfigError as error:
            self.add(error)

    def add(self, error: ConfigError) -> None:
        self._errors.append(error)

    def values_of(self, table: str) -> bool:
        """Tell whether a value in this table is wrong. A setting that does not exist is no value of it."""
        wrong = [error for error in self._errors if not isinstance(error, UnknownSetting)]
        return any(f"({table}." in error.where for error in wrong)

    def raise_any(self) -> None:
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            raise ConfigErrors(self._errors)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcedValue:
    """One value and where it came from, in words for people."""

    value: object
    where: str
    table: str = ""
    """Where its outermost table begins."""
    text: bool = False
    """It comes from the environment, where everything is text: a number may be meant."""


Key = tuple[str, ...]
"""A setting's name: its tables and its own, e.g. ("templates", "ci", "max_nodes")."""


def read(path: Path) -> dict[Key, SourcedValue]:
    """Return every value of the file. Raises ConfigError for a file that can't be read."""
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except OSError as error:
        raise ConfigError("config", str(path), f"{error.strerror or error}", str(path)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError("config", str(path), f"it is not TOML: {error}", str(path)) from error
    lines = _lines(text)

    def where(key: Key) -> str:
        for length in range(len(key), 0, -1):
            if key[:length] in lines:
                return f"{path} line {lines[key[:length]]} ({'.'.join(key)})"
        return f"{path} ({'.'.join(key)})"

    return {
        key: SourcedValue(value=value, where=where(key), table=where(key[:1]))
        for key, value in _leaves((), data)
    }


def nearest(name: str, known: Collection[str]) -> str:
    close = get_close_matches(name, known, n=1, cutoff=0.6)
    if close:
        return f"there is no {name}; did you mean {close[0]}?"
    return f"there is no {name}; known are {', '.join(sorted(known))}"


def _leaves(prefix: Key, data: dict[str, object]) -> Iterator[tuple[Key, object]]:
    for name, value in data.items():
        key = (*prefix, name)
        if isinstance(value, dict) and (value or len(key) > 1):
            yield from _leaves(key, value)
            if not value:
                yield key, value
        else:
            yield key, value


def _lines(text: str) -> dict[Key, int]:
    """Return the lines of tables and keys, for messages. An unusual spelling only costs the line number."""
    found: dict[Key, int] = {}
    table: Key = ()
    inside: str | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if inside is not None:
            if inside in line:
                inside = None
            continue
        header = _HEADER.match(line)
        key = _KEY.match(line)
        if header:
            table = _parts(header[1])
            _note(found, table, number)
        elif key:
            _note(found, (*table, *_parts(key[1])), number)
            inside = next((quote for quote in _MULTILINE if line.count(quote) == 1), None)
    return found


def _note(found: dict[Key, int], key: Key, number: int) -> None:
    """Note a table's first line: `[templates.ci]` begins both `templates` and `templates.ci`."""
    for length in range(1, len(key) + 1):
        found.setdefault(key[:length], number)


def _parts(dotted: str) -> Key:
    return tuple(part.strip().strip("\"'") for part in re.findall(r"\"[^\"]*\"|'[^']*'|[^.\s]+", dotted))
