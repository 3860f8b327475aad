"""Errors over the wire: RFC 9457 problem+json, from one table.

Owns which error is which status and code. A problem says what could not be done, why, and what to do; nothing
of the program's inside gets out. What nobody expected is a 500 with an id that is also in the log.
"""

import json
import logging
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muster.api.wording import rule_of
from muster.domain import errors
from muster.domain.errors import MusterError

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
RETRY_STORE = 1
_VALUE_MOST = 200
_ERRORS_MOST = 10


class Unauthenticated(MusterError):
    """Nobody knows who is asking."""


class TooLarge(MusterError):
    """More was sent than is taken here."""


class StorageFull(MusterError):
    """There is no room for what was sent."""


class NotKept(MusterError):
    """It was sent, and could not be taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    status: int
    code: str
    title: str
    detail: str
    more: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    def response(self) -> Response:
        return Response(
            self.body(), status_code=self.status, headers=dict(self.headers), media_type=MEDIA_TYPE
        )

    def body(self) -> bytes:
        fields = {
            "type": f"urn:muster:problem:{self.code}",
            "title": self.title,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            **self.more,
        }
        # ASCII, so that half characters of the request can be shown without breaking the answer.
        return json.dumps(fields, ensure_ascii=True, allow_nan=False).encode()


TABLE: tuple[tuple[type[MusterError], int, str, str], ...] = (
    (errors.IdempotencyMismatch, 409, "idempotency_mismatch", "The idempotency key was used before"),
    (errors.CursorLost, 410, "cursor_lost", "That place in the feed is gone"),
    (errors.InvalidRequest, 422, "invalid_request", "The request can't work as asked"),
    (errors.NotFound, 404, "not_found", "There is no such thing"),
    (errors.NoDiagnosis, 404, "no_diagnosis", "Nothing was collected"),
    (Unauthenticated, 401, "unauthenticated", "A valid token is needed"),
    (errors.Forbidden, 403, "forbidden", "This is not allowed"),
    (errors.Ambiguous, 409, "ambiguous", "Several provisions are meant"),
    (errors.ClusterExists, 409, "cluster_exists", "There is a cluster of that name"),
    (errors.NotCancellable, 409, "not_cancellable", "It can't be cancelled any more"),
    (errors.CapReached, 409, "cap_reached", "There is no room under the cap"),
    (errors.Conflict, 409, "conflict", "The world moved meanwhile"),
    (errors.StoreUnavailable, 503, "store_unavailable", "The store does not answer"),
    (errors.NotYet, 503, "not_yet", "Too early; ask again"),
    (errors.Lost, 410, "lost", "It was given up; it may enrol anew"),
    (errors.Removed, 410, "removed", "It was taken out"),
    (errors.Gone, 410, "gone", "Its time here is over"),
    (errors.Throttled, 503, "throttled", "The provider asks us to slow down"),
    (errors.ProviderError, 502, "provider_error", "The provider failed"),
    (TooLarge, 413, "too_large", "The body is too large"),
    (StorageFull, 507, "storage_full", "There is no room for it"),
    (NotKept, 410, "not_kept", "It was not kept"),
)
"""The first class that fits counts, so the special ones come before the general ones."""


def of_error(error: MusterError) -> Problem | None:
    for kind, status, code, title in TABLE:
        if isinstance(error, kind):
            more, headers = _extras(error, status)
            return Problem(
                status=status, code=code, title=title, detail=error.public, more=more, headers=headers
            )
    return None


def _extras(error: MusterError, status: int) -> tuple[dict[str, Any], dict[str, str]]:
    more: dict[str, Any] = {}
    headers: dict[str, str] = {}
    if isinstance(error, errors.InvalidRequest):
        more = {"field": error.field, "value": shown(error.value), "rule": error.rule}
    if isinstance(error, errors.IdempotencyMismatch):
        more["operation_id"] = error.operation_id
    if isinstance(error, errors.NotFound):
        more = {"what": error.what, "name": shown(error.name)}
    if isinstance(error, errors.Ambiguous):
        more = {"run": error.run, "operation_ids": list(error.operation_ids)}
    if isinstance(error, errors.ClusterExists):
        more = {"name": error.name, "state": error.state}
    if isinstance(error, errors.NotYet | errors.Throttled):
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after)))
    elif status == HTTPStatus.SERVICE_UNAVAILABLE or type(error) is errors.Conflict:
        headers["Retry-After"] = str(RETRY_STORE)
    if isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = 'Bearer realm="muster"'
    return more, headers


def of_validation(found: Sequence[Mapping[str, Any]]) -> Problem:
    """What the model layer found wrong: the first thing in one sentence, the others listed."""
    if found and found[0].get("type") == "json_invalid":
        where = found[0].get("loc", ("body", 0))[-1]
        why = found[0].get("ctx", {}).get("error", "it is not JSON")
        detail = f"cannot read the body as JSON: {why} (at character {where}); send one JSON object"
        return Problem(status=400, code="malformed_json", title="The body is not JSON", detail=detail)
    listed = [_finding(each) for each in found[:_ERRORS_MOST]]
    first = listed[0] if listed else {"field": "body", "rule": "is not what is expected here"}
    value = f" = {json.dumps(first['value'])}" if "value" in first else ""
    return Problem(
        status=422,
        code="invalid_request",
        title="The request can't work as asked",
        detail=f"cannot accept {first['field']}{value}: {first['rule']}",
        more={**first, "errors": listed},
    )


_PLACES = ("body", "query", "path", "header")


def _finding(error: Mapping[str, Any]) -> dict[str, Any]:
    loc = [str(each) for each in error.get("loc", ())]
    named = loc[1:] if loc and loc[0] in _PLACES else loc
    found: dict[str, Any] = {"field": ".".join(named) or "body", "rule": rule_of(error)}
    if error.get("type") != "missing" and not isinstance(error.get("input"), dict | list):
        found["value"] = shown(error.get("input"))
    return found


def shown(value: object) -> str | int | float | bool | None:
    """A value as the caller sent it, as far as it is short and JSON can say it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) < 1 << 53:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    try:
        text = value if isinstance(value, str) else repr(value)
    except ValueError:
        text = f"<{type(value).__name__} too long to show>"
    return text if len(text) <= _VALUE_MOST else text[:_VALUE_MOST] + "…"


_PHRASES = {
    404: ("not_found", "cannot find {path}: see /openapi.json for what there is"),
    405: ("method_not_allowed", "cannot {method} {path}: see /openapi.json for what it takes"),
    400: ("malformed_body", "cannot read the body: send one JSON object"),
}


def of_http(error: HTTPException, *, method: str, path: str) -> Problem:
    title = HTTPStatus(error.status_code).phrase
    code, detail = _PHRASES.get(
        error.status_code, (title.lower().replace(" ", "_"), f"cannot answer: {error.detail}")
    )
    detail = detail.format(method=method, path=path[:_VALUE_MOST])
    return Problem(
        status=error.status_code, code=code, title=title, detail=detail, headers=error.headers or {}
    )


def of_surprise(error: Exception, *, method: str, path: str) -> Problem:
    """Logged with its trace under an id; the caller gets the id alone."""
    number = secrets.token_hex(6)
    logger.error(
        "request failed",
        exc_info=error,
        extra={"problem_id": number, "method": method, "path": path, "reason": type(error).__name__},
    )
    return Problem(
        status=500,
        code="internal",
        title="Something unexpected happened",
        detail=f"cannot answer because of a bug in Muster; its log has more under {number}",
        more={"problem_id": number},
    )


def translate(error: Exception, *, method: str, path: str) -> Problem:
    if isinstance(error, RequestValidationError):
        return of_validation(error.errors())
    if isinstance(error, HTTPException):
        return of_http(error, method=method, path=path)
    known = of_error(error) if isinstance(error, MusterError) else None
    return known or of_surprise(error, method=method, path=path)


def install(app: FastAPI) -> None:
    async def answer(request: Request, error: Exception) -> Response:
        return translate(error, method=request.method, path=request.url.path).response()

    for kind in (RequestValidationError, HTTPException, MusterError):
        app.add_exception_handler(kind, answer)
    app.add_middleware(CatchAll)


class CatchAll:
    """The last net. An answer that has begun is cut off; one that has not becomes a problem."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def watched(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:
            problem = translate(error, method=scope["method"], path=scope["path"])
            if begun:
                raise
            await problem.response()(scope, receive, send)
