"""Read server-sent events without I/O: the lines, and where to continue after a lost connection."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")
_REMEMBERED_MOST = 2000


def _never(_item: object) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream(Generic[T]):
    path: str
    read: Callable[[str], T]
    params: Mapping[str, str] = field(default_factory=dict)
    last: str | None = None
    ends: Callable[[T], bool] = _never
    """Whether nothing can come after this item."""
    name: Callable[[T], str] | None = None
    """What tells an item from another, where a break may bring some twice."""


class StreamReader(Generic[T]):
    """One reader of a stream, across any number of connections."""

    def __init__(self, stream: Stream[T]) -> None:
        self.stream = stream
        self.last = stream.last
        self.over = False
        self._data: list[str] = []
        self._id: str | None = None
        self._seen: dict[str, None] = {}

    @property
    def headers(self) -> dict[str, str]:
        headers = {"Accept": "text/event-stream"}
        return headers if self.last is None else {**headers, "Last-Event-ID": self.last}

    def connected(self) -> None:
        """Drop what a broken connection left: half a message."""
        self._data, self._id = [], None

    def line(self, line: str) -> Iterator[T]:
        """Take one line; give the item that it completes, if any, and if it is new."""
        if line:
            self._field(line)
            return
        data, place = self._data, self._id
        self._data, self._id = [], None
        if data:
            item = self.stream.read("\n".join(data))
            if self._new(item):
                yield item
            self.over = self.over or self.stream.ends(item)
        if place is not None:
            self.last = place

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "id" and "\0" not in value:
            self._id = value

    def _new(self, item: T) -> bool:
        if self.stream.name is None:
            return True
        name = self.stream.name(item)
        if name in self._seen:
            return False
        self._seen[name] = None
        if len(self._seen) > _REMEMBERED_MOST:
            del self._seen[next(iter(self._seen))]
        return True
