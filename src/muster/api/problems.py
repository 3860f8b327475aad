"""Translate errors into RFC 9457 problem+json, from one table.

This module owns which error has which status and code. A problem says what could not be done, why, and what
to do. It shows nothing of the program's inside. An unexpected error is a 500 with an id that is also in the
log.
"""

import json
import logging
import math
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from muster.api.decoders import InvalidInput, Malformed, Unreadable
from muster.api.input_errors import InputError
from muster.domain import errors
from muster.domain.codes import ProblemCode, help_for
from muster.domain.errors import MusterError
from muster.wire.base import PROBLEM_TYPE, shown

logger = logging.getLogger(__name__)

RETRY_STORE = 1
RETRY_QUEUE = 30
_PATH_MOST = 200


class Unauthenticated(MusterError):
    """The request shows no valid token."""


class NoSignIn(MusterError):
    """This server has no identity provider."""


class AuthorizationPending(MusterError):
    """A terminal waits for a person to confirm its code."""


class LoginDenied(MusterError):
    """The person denied the terminal."""


class LoginExpired(MusterError):
    """No person confirmed the terminal's code in time."""


class TooLarge(MusterError):
    """More was sent than is taken here."""


class StorageFull(MusterError):
    """There is no room for what was sent."""


class NotKept(MusterError):
    """It was sent, and could not be taken."""


class NoPath(MusterError):
    """No route has this path."""


class NoMethod(MusterError):
    """The path takes other methods."""

    def __init__(self, others: Iterable[str]) -> None:
        super().__init__()
        self.others = ", ".join(sorted(others))


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    status: int
    code: ProblemCode
    title: str
    detail: str
    more: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    def response(self) -> Response:
        return Response(
            self.body(), status_code=self.status, headers=dict(self.headers), media_type=PROBLEM_TYPE
        )

    def body(self) -> bytes:
        fields = {
            "type": help_for(self.code),
            "title": self.title,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            **self.more,
        }
        # ASCII, so that half characters of the request can be shown without breaking the answer.
        return json.dumps(fields, ensure_ascii=True, allow_nan=False).encode()


TABLE: tuple[tuple[type[MusterError], int, ProblemCode, str], ...] = (
    (
        errors.IdempotencyMismatch,
        409,
        ProblemCode.IDEMPOTENCY_MISMATCH,
        "The idempotency key was used before",
    ),
    (errors.CursorLost, 410, ProblemCode.CURSOR_LOST, "The cursor is not in this store"),
    (errors.InvalidRequest, 422, ProblemCode.INVALID_REQUEST, "The request is not valid"),
    (errors.NotFound, 404, ProblemCode.NOT_FOUND, "Not found"),
    (errors.NoDiagnosis, 404, ProblemCode.NO_DIAGNOSIS, "There is no diagnosis"),
    (Unauthenticated, 401, ProblemCode.UNAUTHENTICATED, "A valid token is needed"),
    (NoSignIn, 404, ProblemCode.NO_SIGN_IN, "There is no identity provider"),
    (AuthorizationPending, 400, ProblemCode.AUTHORIZATION_PENDING, "The code waits for its person"),
    (LoginDenied, 400, ProblemCode.ACCESS_DENIED, "The person denied the login"),
    (LoginExpired, 400, ProblemCode.EXPIRED_TOKEN, "The code has expired"),
    (errors.Forbidden, 403, ProblemCode.FORBIDDEN, "This is not allowed"),
    (errors.Ambiguous, 409, ProblemCode.AMBIGUOUS, "The run has several provisions"),
    (errors.ClusterExists, 409, ProblemCode.CLUSTER_EXISTS, "The cluster exists"),
    (errors.NotCancellable, 409, ProblemCode.NOT_CANCELLABLE, "The operation can't be cancelled"),
    (errors.QueueFull, 429, ProblemCode.QUEUE_FULL, "Too many operations of this owner wait"),
    (errors.TooManyShells, 429, ProblemCode.TOO_MANY_SHELLS, "Too many shells are open"),
    (errors.CapReached, 409, ProblemCode.CAP_REACHED, "There is no room under the cap"),
    (errors.Conflict, 409, ProblemCode.CONFLICT, "Another write was first"),
    (errors.StoreUnavailable, 503, ProblemCode.STORE_UNAVAILABLE, "The store does not answer"),
    (errors.NotYet, 503, ProblemCode.NOT_YET, "Not ready yet; ask again"),
    (errors.Lost, 410, ProblemCode.LOST, "The node was given up; enrol again"),
    (errors.Removed, 410, ProblemCode.REMOVED, "The node was removed"),
    (errors.Gone, 410, ProblemCode.GONE, "The node has ended"),
    (errors.Throttled, 503, ProblemCode.THROTTLED, "The provider throttles requests"),
    (errors.ProviderError, 502, ProblemCode.PROVIDER_ERROR, "The provider failed"),
    (Malformed, 400, ProblemCode.MALFORMED_JSON, "The body is not JSON"),
    (Unreadable, 400, ProblemCode.MALFORMED_BODY, "The body can't be read"),
    (TooLarge, 413, ProblemCode.TOO_LARGE, "The body is too large"),
    (StorageFull, 507, ProblemCode.STORAGE_FULL, "The server's disk is full"),
    (NotKept, 410, ProblemCode.NOT_KEPT, "The upload was not stored"),
)
"""The first class that fits counts, so the special ones come before the general ones."""


def problem_of_error(error: MusterError) -> Problem | None:
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
    if isinstance(error, errors.QueueFull):
        more = {"owner": error.owner, "cap": error.cap}
        headers["Retry-After"] = str(RETRY_QUEUE)
    if isinstance(error, errors.TooManyShells):
        more = {"where": error.where, "cap": error.cap}
        headers["Retry-After"] = str(RETRY_QUEUE)
    if isinstance(error, errors.NotYet | errors.Throttled):
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after)))
    elif status == HTTPStatus.SERVICE_UNAVAILABLE or type(error) is errors.Conflict:
        headers["Retry-After"] = str(RETRY_STORE)
    if isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = 'Bearer realm="muster"'
    return more, headers


def problem_of_input(found: Sequence[InputError]) -> Problem:
    """Return a problem with the first input error in one sentence, and all of them listed."""
    listed = [each.told() for each in found]
    first = listed[0]
    value = f" = {json.dumps(first['value'])}" if "value" in first else ""
    return Problem(
        status=422,
        code=ProblemCode.INVALID_REQUEST,
        title="The request is not valid",
        detail=f"cannot accept {first['field']}{value}: {first['rule']}",
        more={**first, "errors": listed},
    )


def _of_nowhere(error: NoPath | NoMethod, *, method: str, path: str) -> Problem:
    if isinstance(error, NoPath):
        detail = f"cannot find {path}: /api/v1/openapi.json lists the paths"
        return Problem(status=404, code=ProblemCode.NOT_FOUND, title="Not Found", detail=detail)
    return Problem(
        status=405,
        code=ProblemCode.METHOD_NOT_ALLOWED,
        title="Method Not Allowed",
        detail=f"cannot {method} {path}: /api/v1/openapi.json says what it takes",
        headers={"Allow": error.others},
    )


def problem_of_unexpected(error: Exception, *, method: str, path: str) -> Problem:
    """Log an unexpected error with its trace under an id, and return a problem with the id alone."""
    number = secrets.token_hex(6)
    logger.error(
        "request failed",
        exc_info=error,
        extra={"problem_id": number, "method": method, "path": path, "reason": type(error).__name__},
    )
    return Problem(
        status=500,
        code=ProblemCode.INTERNAL,
        title="Something unexpected happened",
        detail=f"cannot answer because of a bug in Muster; its log has more under {number}",
        more={"problem_id": number},
    )


def translate(error: Exception, *, method: str, path: str) -> Problem:
    if isinstance(error, InvalidInput):
        return problem_of_input(error.found)
    if isinstance(error, NoPath | NoMethod):
        return _of_nowhere(error, method=method, path=path[:_PATH_MOST])
    known = problem_of_error(error) if isinstance(error, MusterError) else None
    return known or problem_of_unexpected(error, method=method, path=path)
