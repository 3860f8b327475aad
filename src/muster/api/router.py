"""The API as tables: a route is a method, a path, who may use it, and a handler.

A handler's signature says what it takes: the context, the caller, path parameters, headers, a query and a
body. The signature is read once, when the server starts.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muster.api.access import Access
from muster.api.connections import admitted
from muster.api.context import ApiRequest, Context, FromRequest, Header
from muster.api.decoders import BodyReader, QueryReader
from muster.api.problems import NoMethod, NoPath, translate
from muster.domain import traces
from muster.domain.errors import Forbidden
from muster.ports.tracing import CURRENT
from muster.wire.base import Query, Shape, encode

ROOT = "/api/v1"
JSON = "application/json"
Handler = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Raw:
    """A body that is not a shape: what it is, and an example for the documentation."""

    media_type: str
    example: str


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str
    access: Access
    handler: Handler
    status: int = 200
    takes: Raw | None = None
    gives: Raw | None = None
    """Instead of the shape that the handler returns."""
    workflows: bool = False
    """Whether a workflow that signed in by itself may use it, for what is its own."""
    location: Callable[[Any], str] | None = None
    """Where the answer says that its subject is found."""


@dataclass(frozen=True, slots=True)
class Table:
    tag: str
    routes: tuple[Route, ...]
    root: str = ROOT


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What a handler takes and gives."""

    sources: Mapping[str, FromRequest]
    """Parameters that come with any request: the context, the caller."""
    headers: Mapping[str, Header]
    path: tuple[str, ...]
    query: tuple[str, type[Query]] | None
    body: tuple[str, type[Shape]] | None
    gives: Any
    """The shape, or None: the handler makes its own response."""

    @classmethod
    def of(cls, route: Route) -> "Signature":
        hints = get_type_hints(route.handler, include_extras=True)
        gives = hints.pop("return")
        marks = {name: getattr(hint, "__metadata__", (None,))[0] for name, hint in hints.items()}
        shapes = {name: hint for name, hint in hints.items() if inspect.isclass(hint)}
        queries = [(name, hint) for name, hint in shapes.items() if issubclass(hint, Query)]
        bodies = [
            (name, hint)
            for name, hint in shapes.items()
            if issubclass(hint, Shape) and not issubclass(hint, Query)
        ]
        return cls(
            sources={name: mark for name, mark in marks.items() if isinstance(mark, FromRequest)},
            headers={name: mark for name, mark in marks.items() if isinstance(mark, Header)},
            path=tuple(name for name, hint in hints.items() if hint is str),
            query=queries[0] if queries else None,
            body=bodies[0] if bodies else None,
            gives=next((each for each in _options(gives) if not _is_response(each)), None),
        )


def _options(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _is_response(kind: Any) -> bool:
    return inspect.isclass(kind) and issubclass(kind, Response)


@dataclass(frozen=True, slots=True)
class Answer:
    """A shape as a response."""

    body: bytes
    status: int
    location: str | None

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(self.body))]
        if self.location is not None:
            headers.append((b"location", self.location.encode("latin-1")))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


class Endpoint:
    """A route that is ready to answer."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._signature = Signature.of(route)
        self._query = self._signature.query and QueryReader(self._signature.query[1])
        self._body = self._signature.body and BodyReader(self._signature.body[1])

    async def __call__(self, context: Context, request: ApiRequest) -> ASGIApp:
        await self._admit(context, request)
        signature = self._signature
        given: dict[str, Any] = {
            name: each.read(context, request) for name, each in signature.sources.items()
        }
        for name, header in signature.headers.items():
            given[name] = request.headers.get(header.name)
        for name in signature.path:
            given[name] = request.path_params[name]
        if signature.query is not None and self._query is not None:
            given[signature.query[0]] = self._query.read(request.scope["query_string"])
        if signature.body is not None and self._body is not None:
            given[signature.body[0]] = self._body.read(await request.whole())
        answer = await self._route.handler(**given)
        if isinstance(answer, Response):
            return answer
        location = self._route.location(answer) if self._route.location is not None else None
        return Answer(encode(answer), self._route.status, location)

    async def _admit(self, context: Context, request: ApiRequest) -> None:
        """Identify the caller before the request itself is read."""
        access = self._route.access
        if access is Access.PUBLIC:
            return
        if access is Access.NODE:
            request.node_view = await context.authenticator.speaker(request.authorization)
        elif access.role is not None:
            caller = await context.authenticator.caller(request.credentials(context.cookies), access.role)
            if caller.confinement is not None and not self._route.workflows:
                rule = "cannot do this as a workflow: it may provision, release and follow its own runs"
                raise Forbidden(rule)
            request.token, request.confinement = caller.token, caller.confinement
            parent = traces.parse(request.headers.get("traceparent", ""))
            if parent is not None:
                CURRENT.set(str(parent))
        admitted(request.scope)


@dataclass(slots=True)
class _Branch:
    """Where paths part: by their next piece, or by whatever stands in place of a parameter."""

    literal: dict[str, "_Branch"] = field(default_factory=dict)
    parameter: "_Branch | None" = None
    methods: dict[str, tuple[Endpoint, list[str]]] = field(default_factory=dict)
    """What ends here, with the names of its parameters."""

    def grown(self, piece: str) -> "_Branch":
        if not piece.startswith("{"):
            return self.literal.setdefault(piece, _Branch())
        self.parameter = self.parameter or _Branch()
        return self.parameter

    def ends(self, pieces: Sequence[str]) -> Iterator[tuple["_Branch", list[str]]]:
        """Return all route ends that fit, literal ones first, with the values of their parameters."""
        if not pieces:
            yield self, []
            return
        piece, rest = pieces[0], pieces[1:]
        if piece in self.literal:
            yield from self.literal[piece].ends(rest)
        if piece and self.parameter is not None:
            for end, values in self.parameter.ends(rest):
                yield end, [piece, *values]


class Application:
    """All routes as one ASGI application. An error becomes a problem, unless the answer has begun."""

    def __init__(self, context: Context, tables: Sequence[Table]) -> None:
        self.context = context
        self._root = _Branch()
        self._plain: dict[tuple[str, str], Endpoint] = {}
        """Routes without parameters."""
        for table in tables:
            for route in table.routes:
                pieces = (table.root + route.path).split("/")
                names = [piece[1:-1] for piece in pieces if piece.startswith("{")]
                endpoint = Endpoint(route)
                reduce(_Branch.grown, pieces, self._root).methods[route.method] = (endpoint, names)
                if not names:
                    self._plain[route.method, table.root + route.path] = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def watched(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            endpoint, scope["path_params"] = self._found(scope["method"], scope["path"])
            response = await endpoint(self.context, ApiRequest(scope, receive))
            await response(scope, receive, watched)
        except Exception as error:
            problem = translate(error, method=scope["method"], path=scope["path"])
            if begun:
                raise
            await problem.response()(scope, receive, send)

    def _found(self, method: str, path: str) -> tuple[Endpoint, dict[str, str]]:
        plain = self._plain.get((method, path))
        if plain is not None:
            return plain, {}
        others: set[str] = set()
        for end, values in self._root.ends(path.split("/")):
            if method in end.methods:
                endpoint, names = end.methods[method]
                return endpoint, dict(zip(names, values, strict=True))
            others |= end.methods.keys()
        raise NoMethod(others) if others else NoPath
