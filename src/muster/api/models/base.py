"""The two kinds of model: what comes in is strict and closed, what goes out is closed."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, model_validator

T = TypeVar("T")
EXAMPLE_TIME = "2026-05-04T09:30:00Z"


class In(BaseModel):
    """A request body. "3" is not 3, and a field that nobody knows is somebody's typing error."""

    model_config = ConfigDict(strict=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _writable(cls, data: object) -> object:
        """JSON can spell half of a character (a lone surrogate); no store and no process can hold it."""
        if isinstance(data, Mapping):
            for field, value in data.items():
                for text in _texts(value):
                    if not _encodes(text):
                        raise ValueError(f"{field} must be text that UTF-8 can hold")
        return data


class Asked(BaseModel):
    """Query parameters. They are text by nature, so numbers are read from it; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid")


class Out(BaseModel):
    model_config = ConfigDict(extra="forbid")


class PageOut(Out, Generic[T]):
    items: list[T]
    next: str | None
    """Where to go on; null: nothing more at present."""


def example(value: Mapping[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [dict(value)]})


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def maybe_at(seconds: float | None) -> datetime | None:
    return None if seconds is None else at(seconds)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _texts(key)
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
