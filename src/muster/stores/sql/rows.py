"""Records as rows and back: one column per field of the dataclass, JSON text for nested values.

Owns the encoding of every record. What a column needs is worked out once per class, so that reading or
writing a row costs no reflection. Refuses nothing: the schema and the domain do.
"""

import json
import types
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import lru_cache, partial
from typing import Any, Generic, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

from muster.domain import plain
from muster.domain.access import ApiToken
from muster.domain.boot import Boot, Span
from muster.domain.cluster import Cluster
from muster.domain.command import Command, Execution
from muster.domain.failures import Failure
from muster.domain.health import Vitals
from muster.domain.launch import Launch
from muster.domain.node import Node
from muster.domain.operation import Member, Operation, Verdict
from muster.domain.plain import Plain
from muster.domain.progress import Progress
from muster.domain.requests import Request
from muster.stores.kinds import REQUESTS, request_class
from muster.stores.sql.tx import Row, Value

T = TypeVar("T")
Convert = Callable[[Any], Any]

_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
to_json: Callable[[Plain], str] = _encoder.encode
from_json: Callable[[str], Any] = json.loads


REMEMBERED = 256
REMEMBERED_LENGTH = 4096


def _remembering(build: Convert) -> Convert:
    """Decodes JSON. What was decoded a moment ago isn't decoded again: many reads are of one operation, and
    what is built is frozen, so that all of them can have the same."""

    def decode(text: str | None) -> Any:
        return None if text is None else build(from_json(text))

    remembered = lru_cache(REMEMBERED)(decode)
    return lambda text: (remembered if text is None or len(text) <= REMEMBERED_LENGTH else decode)(text)


class Codec(Generic[T]):
    """One class and its table. `nested` says how to rebuild the fields that are kept as JSON."""

    def __init__(self, cls: type[T], table: str, nested: Mapping[str, Convert] | None = None) -> None:
        self._cls = cls
        self.table = table
        self.columns = plain.field_names(cls)
        hints = get_type_hints(cls)
        self._nested = nested or {}
        pairs = {name: self._conversions(name, hints[name]) for name in self.columns}
        self._encode: dict[str, Convert] = {n: enc for n, (enc, _) in pairs.items() if enc is not None}
        self._decode: tuple[tuple[int, Convert], ...] = tuple(
            (index, dec)
            for index, (_, dec) in enumerate(pairs[name] for name in self.columns)
            if dec is not None
        )
        self._updates: dict[tuple[str, ...], str] = {}
        self.select = ", ".join(self.columns)
        marks = ", ".join(f":{name}" for name in self.columns)
        self.insert = f"INSERT INTO {table} ({self.select}) VALUES ({marks})"

    def _conversions(self, name: str, hint: Any) -> tuple[Convert | None, Convert | None]:
        if name in self._nested:
            return _nested_to_json, _remembering(self._nested[name])
        bare = _bare(hint)
        if isinstance(bare, type) and issubclass(bare, Enum):
            members: dict[str | None, Enum | None] = {member.value: member for member in bare}
            members[None] = None
            return _enum_value, members.__getitem__
        if bare is bool:
            return int, bool
        return None, None

    def qualified(self, alias: str) -> str:
        return ", ".join(f"{alias}.{name}" for name in self.columns)

    def params(self, value: T) -> dict[str, Value]:
        params: dict[str, Value] = {name: getattr(value, name) for name in self.columns}
        for name, encode in self._encode.items():
            params[name] = encode(params[name])
        return params

    def changed(self, before: T, after: T) -> dict[str, Value]:
        """The columns in which two records differ, as they are stored."""
        changes: dict[str, Value] = {}
        for name, value in plain.differing(before, after):
            encode = self._encode.get(name)
            changes[name] = value if encode is None else encode(value)
        return changes

    def update(self, names: tuple[str, ...]) -> str:
        """The guarded update of some columns: by `:id`, only at `:expected` version."""
        sql = self._updates.get(names)
        if sql is None:
            sets = ", ".join(f"{name} = :{name}" for name in names)
            sql = f"UPDATE {self.table} SET {sets} WHERE id = :id AND version = :expected"
            self._updates[names] = sql
        return sql

    def decode(self, row: Row) -> T:
        values = list(row)
        for index, convert in self._decode:
            values[index] = convert(values[index])
        return self._cls(**dict(zip(self.columns, values, strict=True)))


_REQUEST_OF: dict[type[Request], Convert] = {
    cls: _remembering(partial(plain.from_plain, cls)) for cls in REQUESTS.values()
}


class _OperationCodec(Codec[Operation]):
    """The kind of an operation tells the class of its request."""

    def decode(self, row: Row) -> Operation:
        request = _REQUEST_OF[request_class(row[_KIND])](row[_REQUEST])
        return super().decode((*row[:_REQUEST], request, *row[_REQUEST + 1 :]))

    def _conversions(self, name: str, hint: Any) -> tuple[Convert | None, Convert | None]:
        if name == "request":
            return _nested_to_json, None
        return super()._conversions(name, hint)


def _bare(hint: Any) -> Any:
    """The type itself, without `| None` and NewType."""
    if isinstance(hint, NewType):
        return _bare(hint.__supertype__)
    if get_origin(hint) in (Union, types.UnionType):
        inner = [option for option in get_args(hint) if option is not type(None)]
        return _bare(inner[0]) if len(inner) == 1 else hint
    return hint


def _enum_value(value: Enum | None) -> Any:
    return None if value is None else value.value


def _nested_to_json(value: object) -> str | None:
    return None if value is None else to_json(plain.to_plain(value))


def _members(items: list[Mapping[str, Plain]]) -> tuple[Member, ...]:
    return tuple(plain.from_plain(Member, item) for item in items)


NODE: Codec[Node] = Codec(Node, "nodes")
LAUNCH: Codec[Launch] = Codec(Launch, "launches", {"instance_types": tuple})
OPERATION: Codec[Operation] = _OperationCodec(
    Operation,
    "operations",
    {
        "members": _members,
        "verdict": lambda data: plain.from_plain(Verdict, data),
        "progress": lambda data: plain.from_plain(Progress, data),
    },
)
COMMAND: Codec[Command] = Codec(
    Command, "commands", {"execution": lambda data: plain.from_plain(Execution, data)}
)
VITALS: Codec[Vitals] = Codec(Vitals, "liveness")
BOOT: Codec[Boot] = Codec(
    Boot, "boots", {"phases": lambda items: tuple(plain.from_plain(Span, item) for item in items)}
)
CLUSTER: Codec[Cluster] = Codec(Cluster, "clusters")
API_TOKEN: Codec[ApiToken] = Codec(ApiToken, "api_tokens")
FAILURE: Codec[Failure] = Codec(Failure, "failures")
_KIND = OPERATION.columns.index("kind")
_REQUEST = OPERATION.columns.index("request")
_CREATED_AT, _ID = OPERATION.columns.index("created_at"), OPERATION.columns.index("id")


def known_operations(rows: Sequence[Row]) -> list[Operation]:
    """Without those of kinds that only newer replicas know."""
    return [OPERATION.decode(row) for row in rows if row[_KIND] in REQUESTS]


def age_of_operation(row: Row) -> tuple[float, str]:
    return row[_CREATED_AT], row[_ID]
