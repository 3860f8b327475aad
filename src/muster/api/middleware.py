"""Limit how much a request may send and in which form, before anything is parsed; add default headers.

A body that is too large is read to its end and dropped, up to a bound, because a client that still sends
doesn't listen. Then the client gets its 413. Answers may hold secrets of the caller, so no cache may keep
them.
"""

from collections.abc import Iterable
from dataclasses import replace
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muster.api.problems import Problem, TooLarge, problem_of_error
from muster.domain.codes import ProblemCode

QUERY_MOST = 8192
"""Bytes. The longest that is any use holds a cursor and a few words."""
PARAMETERS_MOST = 100
"""The framework looks at all of them for each of them: their number counts, squared."""
DISCARD_MOST = 64 << 20
"""Beyond this a client is not mistaken but hostile, and may see its connection reset."""
_JSON = "application/json"
_ANNOUNCED = (b"content-length", b"transfer-encoding")
Kind = tuple[str, str, str]
"""Which requests are meant: their method, and how their path starts and ends."""


class QueryLimit:
    """In front of all that parses a query."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = scope.get("query_string", b"")
        if len(query) <= QUERY_MOST and query.count(b"&") < PARAMETERS_MOST:
            await self._app(scope, receive, send)
            return
        problem = Problem(
            status=HTTPStatus.REQUEST_URI_TOO_LONG,
            code=ProblemCode.QUERY_TOO_LONG,
            title="The query is too long",
            detail=f"cannot take a query of {len(query)} bytes and {query.count(b'&') + 1} parameters: "
            f"send at most {QUERY_MOST} bytes and {PARAMETERS_MOST} parameters",
        )
        await problem.response()(scope, receive, send)


class BodyLimit:
    """`streamed` requests bring their own limits; `raw` ones are bounded here, but need not be JSON."""

    def __init__(self, app: ASGIApp, *, most: int, streamed: Iterable[Kind], raw: Iterable[Kind]) -> None:
        self._app = app
        self._most = most
        self._streamed = tuple(streamed)
        self._raw = tuple(raw)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sent = any(name in _ANNOUNCED for name, _ in scope.get("headers", ()))
        if not sent or self._is(scope, self._streamed):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        problem = self._announced(headers)
        body = b""
        if problem is not None and headers.get("expect", "").lower() == "100-continue":
            # The caller may keep its body back. What it sends next must not be taken for that.
            problem = replace(problem, headers={**problem.headers, "Connection": "close"})
        else:
            body, whole = await _read(receive, self._most)
            problem = problem or (None if whole else self._too_large())
        if problem is None and body and not self._is(scope, self._raw):
            problem = _wrong_type(headers)
        if problem is not None:
            await problem.response()(scope, receive, send)
            return
        await self._app(scope, _replayed(body, receive), send)

    def _is(self, scope: Scope, kinds: tuple[Kind, ...]) -> bool:
        method, path = scope["method"], scope["path"]
        return any(method == each and path.startswith(a) and path.endswith(z) for each, a, z in kinds)

    def _announced(self, headers: Headers) -> Problem | None:
        length = headers.get("content-length", "0")
        return self._too_large() if not length.isdigit() or int(length) > self._most else None

    def _too_large(self) -> Problem:
        problem = problem_of_error(TooLarge(f"cannot take a body of more than {self._most} bytes: send less"))
        assert problem is not None  # noqa: S101 — it is in the table
        return problem


async def _read(receive: Receive, most: int) -> tuple[bytes, bool]:
    """Read the body; return it, and whether it is whole. What exceeds the limit is dropped."""
    kept: list[bytes] = []
    size = 0
    while size <= DISCARD_MOST:
        message = await receive()
        if message["type"] != "http.request":
            return b"", False
        piece = message.get("body", b"")
        size += len(piece)
        if size <= most:
            kept.append(piece)
        else:
            kept.clear()
        if not message.get("more_body", False):
            return b"".join(kept), size <= most
    return b"", False


def _wrong_type(headers: Headers) -> Problem | None:
    given = headers.get("content-type", "").partition(";")[0].strip().lower()
    if given == _JSON:
        return None
    return Problem(
        status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        code=ProblemCode.UNSUPPORTED_MEDIA_TYPE,
        title="The body must be JSON",
        detail=f"cannot read a body of type {given[:80] or 'unknown'}: send it as application/json",
    )


def _replayed(body: bytes, receive: Receive) -> Receive:
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


HEADERS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


class DefaultHeaders:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                said = [name.lower() for name, _ in headers]
                message["headers"] = headers + [each for each in HEADERS if each[0] not in said]
            await send(message)

        await self._app(scope, receive, sealed)
