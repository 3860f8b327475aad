"""Decode bodies and queries strictly.

"3" is not 3, and an unknown field is a typing error. Good input costs one pass of msgspec. All errors of bad
input are told at once (`input_errors`). Agents are the exception: an agent may be newer than its server, so
unknown fields of agents are ignored.
"""

import json
from functools import cached_property
from itertools import islice
from types import UnionType
from typing import Any, Generic, TypeVar, Union, get_args, get_origin
from urllib.parse import parse_qsl

import msgspec
from msgspec import inspect

from muster.api.input_errors import MISSING, InputError, find_input_errors
from muster.domain.errors import MusterError
from muster.wire.base import AgentMessage, Query, Shape

S = TypeVar("S", bound=Shape)
Q = TypeVar("Q", bound=Query)
TOLD_MOST = 10
_UNCLEAR = "is not what is expected here; see /api/v1/openapi.json for what is"


class Malformed(MusterError):
    """The body is not JSON."""


class Unreadable(MusterError):
    """The body is too deep, or not UTF-8."""


class InvalidInput(MusterError):
    """The input is JSON, or a query, and not what the route takes."""

    def __init__(self, found: list[InputError]) -> None:
        super().__init__("cannot accept the request")
        self.found = found


class BodyReader(Generic[S]):
    def __init__(self, shape: type[S]) -> None:
        self._shape = strict(shape)
        self._decoder = msgspec.json.Decoder(self._shape)

    def read(self, body: bytes) -> S:
        """Decode a body. Raises Malformed, Unreadable, InvalidInput, or InvalidRequest for fields that
        exclude each other."""
        try:
            return self._decoder.decode(body)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise self._refusal(body) from None

    def _refusal(self, body: bytes) -> MusterError:
        if not body:
            return InvalidInput([InputError("", MISSING)])
        try:
            value = json.loads(body.decode())  # from bytes it would read UTF-16, too
        except json.JSONDecodeError as error:
            return Malformed(
                f"cannot read the body as JSON: {error.msg} (at character {error.pos}); send one JSON object"
            )
        except (ValueError, RecursionError):
            return Unreadable("cannot read the body: send one JSON object, in UTF-8 and not too deep")
        found = list(islice(find_input_errors(self._info, value), TOLD_MOST))
        return InvalidInput(found or [InputError("", _UNCLEAR)])

    @cached_property
    def _info(self) -> inspect.Type:
        """Describe the shape, when the first bad input comes: a server starts without it in half of the
        time that its routes take."""
        return inspect.type_info(self._shape)


class QueryReader(Generic[Q]):
    def __init__(self, shape: type[Q]) -> None:
        self._shape = strict(shape)
        self._info = inspect.type_info(self._shape)
        assert isinstance(self._info, inspect.StructType)  # noqa: S101 — a Query is a struct
        self._lists = {each.name for each in self._info.fields if isinstance(each.type, inspect.VarTupleType)}

    def read(self, query: bytes) -> Q:
        """Decode a query. Raises InvalidInput. The last of several values counts, unless the parameter is a
        list."""
        given: dict[str, Any] = {}
        for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True, errors="replace"):
            if name in self._lists:
                given.setdefault(name, []).append(value)
            else:
                given[name] = value
        try:
            return msgspec.convert(given, self._shape, strict=False)
        except (msgspec.MsgspecError, ValueError):
            found = list(islice(find_input_errors(self._info, given, text=True), TOLD_MOST))
            raise InvalidInput(found or [InputError("query", _UNCLEAR)]) from None


def strict(shape: type[S]) -> type[S]:
    """Derive the shape that refuses unknown fields, at every depth. `Said` shapes stay as they are."""
    if issubclass(shape, AgentMessage):
        return shape
    inner = {each.name: each for each in msgspec.structs.fields(shape) if _strict(each.type) != each.type}
    namespace: dict[str, Any] = {
        "__module__": shape.__module__,
        "__annotations__": {name: _strict(each.type) for name, each in inner.items()},
        **{name: _default(each) for name, each in inner.items() if not each.required},
    }
    make: Any = type(shape)
    derived: type[S] = make(shape.__name__, (shape,), namespace, forbid_unknown_fields=True)
    return derived


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is msgspec.NODEFAULT:
        return field.default
    return msgspec.field(default_factory=field.default_factory)


_derived: dict[type[Shape], type[Shape]] = {}


def _strict(kind: Any) -> Any:
    if isinstance(kind, type) and issubclass(kind, Shape):
        if kind not in _derived:
            _derived[kind] = strict(kind)
        return _derived[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return Union[tuple(map(_strict, arguments))]  # noqa: UP007 — made of a tuple
    if origin in (tuple, dict):
        return origin[tuple(map(_strict, arguments))]
    return kind
