"""Records as rows and back: one column per field of the dataclass, JSON text for nested values.

Owns the encoding of every record, declared at the end: a class and its table. What a column needs is worked
out once per class, so that a row costs no reflection.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, Generic, TypeVar, get_origin, get_type_hints

from muster.domain import serialization
from muster.domain.access import ApiToken, DeviceRequest
from muster.domain.boot import Boot
from muster.domain.cluster import Cluster
from muster.domain.command import Command
from muster.domain.errors import NotFound
from muster.domain.failures import Failure
from muster.domain.health import Vitals
from muster.domain.job_figures import SourceCounts
from muster.domain.jobs import Job
from muster.domain.launch import Launch
from muster.domain.node import Node
from muster.domain.operation import Operation
from muster.domain.overview import Acknowledgement
from muster.domain.requests import Request
from muster.domain.serialization import Plain
from muster.domain.undelivered import Undelivered
from muster.stores.records import REQUESTS, request_class
from muster.stores.sql.tx import Row, Tx, Value

T = TypeVar("T")
Convert = Callable[[Any], Any]

_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
to_json: Callable[[Plain], str] = _encoder.encode
from_json: Callable[[str], Any] = json.loads


REMEMBERED = 256
REMEMBERED_LENGTH = 4096
BUILT_MOST = 2048
"""Records per table that are kept as they were built last: some 2 KiB each."""


def _remembering(build: Convert) -> Convert:
    """Decode JSON, and keep what was decoded lately. Many reads are of one operation, and decoded values
    are frozen, so readers can share them."""

    def decode(text: str | None) -> Any:
        return None if text is None else build(from_json(text))

    remembered = lru_cache(REMEMBERED)(decode)
    return lambda text: (remembered if text is None or len(text) <= REMEMBERED_LENGTH else decode)(text)


class Codec(Generic[T]):
    """One class and its table. The class says all: its fields are the columns, nested values are JSON text.

    A new field needs a column of the same name (a migration) and nothing here.
    """

    def __init__(self, cls: type[T], table: str, name: str = "") -> None:
        """Take a class and its table. `name`: what a person calls a record; without one, as the class is
        named."""
        self._cls = cls
        self._name = name or cls.__name__.lower()
        self.table = table
        self.columns = serialization.field_names(cls)
        hints = get_type_hints(cls)
        pairs = [(name, *self._conversions(name, hints[name])) for name in self.columns]
        self._encode: dict[str, Convert] = {name: encode for name, encode, _ in pairs if encode is not None}
        self._decode: tuple[tuple[int, Convert], ...] = tuple(
            (index, decode) for index, (_, _, decode) in enumerate(pairs) if decode is not None
        )
        self._updates: dict[tuple[str, ...], str] = {}
        self._built: dict[Value, tuple[Row, T]] = {}
        """The last row of each record, by its first column, and what was built from it."""
        self.select = ", ".join(self.columns)
        self.by_id = f"SELECT {self.select} FROM {table} WHERE id = :id"
        self.insert = self.inserting()

    def _conversions(self, name: str, hint: Any) -> tuple[Convert | None, Convert | None]:
        """Return how a field is written to its column and read from it; None: as it is."""
        bare = serialization.bare(hint)
        if isinstance(bare, type) and issubclass(bare, Enum):
            members: dict[str | None, Enum | None] = {member.value: member for member in bare}
            members[None] = None
            return _enum_value, members.__getitem__
        if bare is bool:
            return _flag_value, _flag
        if is_dataclass(bare) or get_origin(bare) is tuple:
            return _nested_to_json, _remembering(serialization.decoder(bare))
        return None, None

    def inserting(self, *more: str) -> str:
        """Return the insert of a record. `more`: columns of the table that are no fields."""
        names = (*self.columns, *more)
        marks = ", ".join(f":{name}" for name in names)
        return f"INSERT INTO {self.table} ({', '.join(names)}) VALUES ({marks})"

    def upserting(self, key: str) -> str:
        """Return the insert of a record that replaces the one with the same key."""
        sets = ", ".join(f"{name} = excluded.{name}" for name in self.columns if name != key)
        return f"{self.insert} ON CONFLICT ({key}) DO UPDATE SET {sets}"

    def qualified(self, alias: str) -> str:
        return ", ".join(f"{alias}.{name}" for name in self.columns)

    def params(self, value: T) -> dict[str, Value]:
        params: dict[str, Value] = {name: getattr(value, name) for name in self.columns}
        for name, encode in self._encode.items():
            params[name] = encode(params[name])
        return params

    def changed(self, before: T, after: T) -> dict[str, Value]:
        """Return the columns in which two records differ, as they are stored."""
        changes: dict[str, Value] = {}
        for name, value in serialization.differing(before, after):
            encode = self._encode.get(name)
            changes[name] = value if encode is None else encode(value)
        return changes

    def update(self, names: tuple[str, ...]) -> str:
        """Return the guarded update of some columns: by `:id`, only at `:expected` version."""
        sql = self._updates.get(names)
        if sql is None:
            sets = ", ".join(f"{name} = :{name}" for name in names)
            sql = f"UPDATE {self.table} SET {sets} WHERE id = :id AND version = :expected"
            self._updates[names] = sql
        return sql

    def decode(self, row: Row) -> T:
        """Decode a row. An unchanged record is not built again: records are frozen."""
        before = self._built.get(row[0])
        if before is not None and before[0] == row:
            return before[1]
        if len(self._built) >= BUILT_MOST:
            self._built.clear()
        built = self.build(row)
        self._built[row[0]] = (row, built)
        return built

    def build(self, row: Row) -> T:
        values = list(row)
        for index, convert in self._decode:
            values[index] = convert(values[index])
        return self._cls(**dict(zip(self.columns, values, strict=True)))

    def all(self, rows: Sequence[Row]) -> list[T]:
        return [self.decode(row) for row in rows]

    def first(self, rows: Sequence[Row]) -> T | None:
        return self.decode(rows[0]) if rows else None

    def find(self, tx: Tx, record_id: str) -> T | None:
        return self.first(tx.execute(self.by_id, {"id": record_id}))

    def get(self, tx: Tx, record_id: str) -> T:
        """Return the record of an id. Raises NotFound."""
        found = self.find(tx, record_id)
        if found is None:
            raise NotFound(self._name, record_id)
        return found


_REQUEST_OF: dict[type[Request], Convert] = {
    cls: _remembering(serialization.decoder(cls)) for cls in REQUESTS.values()
}


class _OperationCodec(Codec[Operation]):
    """The kind of an operation tells the class of its request."""

    def build(self, row: Row) -> Operation:
        request = _REQUEST_OF[request_class(row[_KIND])](row[_REQUEST])
        return super().build((*row[:_REQUEST], request, *row[_REQUEST + 1 :]))

    def _conversions(self, name: str, hint: Any) -> tuple[Convert | None, Convert | None]:
        if name == "request":
            return _nested_to_json, None
        return super()._conversions(name, hint)


def _enum_value(value: Enum | None) -> Any:
    return None if value is None else value.value


def _flag_value(value: bool | None) -> int | None:
    return None if value is None else int(value)


def _flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def _nested_to_json(value: object) -> str | None:
    return None if value is None else to_json(serialization.to_plain(value))


NODE: Codec[Node] = Codec(Node, "nodes")
LAUNCH: Codec[Launch] = Codec(Launch, "launches")
OPERATION: Codec[Operation] = _OperationCodec(Operation, "operations")
COMMAND: Codec[Command] = Codec(Command, "commands")
VITALS: Codec[Vitals] = Codec(Vitals, "liveness")
BOOT: Codec[Boot] = Codec(Boot, "boots")
CLUSTER: Codec[Cluster] = Codec(Cluster, "clusters")
JOB: Codec[Job] = Codec(Job, "jobs")
SOURCE_COUNTS: Codec[SourceCounts] = Codec(SourceCounts, "job_sources")
API_TOKEN: Codec[ApiToken] = Codec(ApiToken, "api_tokens", "token")
DEVICE: Codec[DeviceRequest] = Codec(DeviceRequest, "device_requests")
ACKNOWLEDGEMENT: Codec[Acknowledgement] = Codec(Acknowledgement, "acknowledgements")
FAILURE: Codec[Failure] = Codec(Failure, "failures")
UNDELIVERED: Codec[Undelivered] = Codec(Undelivered, "undelivered")
_KIND = OPERATION.columns.index("kind")
_REQUEST = OPERATION.columns.index("request")
_CREATED_AT, _ID = OPERATION.columns.index("created_at"), OPERATION.columns.index("id")


def known_operations(rows: Sequence[Row]) -> list[Operation]:
    """Return the operations without those of kinds that only newer replicas know."""
    return [OPERATION.decode(row) for row in rows if row[_KIND] in REQUESTS]


def age_of_operation(row: Row) -> tuple[float, str]:
    return row[_CREATED_AT], row[_ID]
