"""Rebuild the server's errors as the classes that the rest of Muster raises."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from muster.domain import errors
from muster.domain.errors import MusterError


class CannotReach(MusterError):
    """No server answers at the address."""

    def __init__(self, url: str, why: str) -> None:
        self.url = url
        super().__init__(f"cannot reach the server at {url}: start it with `muster serve` ({why})")


class UnusableAddress(MusterError):
    """What was given as the server's address is none."""

    def __init__(self, url: str) -> None:
        super().__init__(f"cannot use {url!r} as the server's address: write it like http://127.0.0.1:8420")


class Untrusted(MusterError):
    """The server can't prove that it is the one that was asked for."""

    def __init__(self, url: str, why: str) -> None:
        advice = "check the address, or name your authority's certificate with MUSTER_CA_FILE or --ca-file"
        super().__init__(f"cannot trust the server at {url}: {why}; {advice}")


class UnusableCertificate(MusterError):
    """The file with the authority's certificate can't be used."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"cannot use the certificate {path}: {why}; name a PEM file")


class Unauthenticated(MusterError):
    """The server doesn't know who is asking."""


class ServerProblem(MusterError):
    """The server refused or failed in a way that has no class of its own."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status = status
        self.code = code
        super().__init__(message)


Fields = Mapping[str, Any]


def _text(fields: Fields) -> str:
    return str(fields.get("detail") or fields.get("title") or "the server gave no cause")


def _invalid(fields: Fields) -> MusterError:
    return errors.InvalidRequest(
        str(fields.get("field", "body")), fields.get("value"), str(fields.get("rule", _text(fields)))
    )


def _mismatch(fields: Fields) -> MusterError:
    return errors.IdempotencyMismatch(str(fields.get("value", "")), str(fields.get("operation_id", "")))


def _not_found(fields: Fields) -> MusterError:
    if "what" not in fields:
        return ServerProblem(404, "not_found", _text(fields))
    return errors.NotFound(str(fields["what"]), str(fields.get("name", "")))


def _ambiguous(fields: Fields) -> MusterError:
    ids = tuple(str(each) for each in fields.get("operation_ids", ()))
    return errors.Ambiguous(str(fields.get("run", "")), ids)


def _cluster_exists(fields: Fields) -> MusterError:
    return errors.ClusterExists(str(fields.get("name", "")), str(fields.get("state", "")), _text(fields))


def _plain(kind: Callable[[str], MusterError]) -> Callable[[Fields], MusterError]:
    return lambda fields: kind(_text(fields))


_BY_CODE: Mapping[str, Callable[[Fields], MusterError]] = {
    "invalid_request": _invalid,
    "cursor_lost": lambda fields: errors.CursorLost(str(fields.get("value", ""))),
    "idempotency_mismatch": _mismatch,
    "not_found": _not_found,
    "no_diagnosis": _plain(errors.NoDiagnosis),
    "ambiguous": _ambiguous,
    "cluster_exists": _cluster_exists,
    "queue_full": lambda fields: errors.QueueFull(str(fields.get("owner", "")), int(fields.get("cap", 0))),
    "too_many_shells": lambda fields: errors.TooManyShells(
        str(fields.get("where", "")), int(fields.get("cap", 0))
    ),
    "unauthenticated": _plain(Unauthenticated),
    "forbidden": _plain(errors.Forbidden),
    "not_cancellable": _plain(errors.NotCancellable),
    "conflict": _plain(errors.Conflict),
    "store_unavailable": _plain(errors.StoreUnavailable),
    "gone": _plain(errors.Gone),
    "lost": _plain(errors.Lost),
    "removed": _plain(errors.Removed),
}


def error_of_problem(status: int, body: bytes, retry_after: float) -> MusterError:
    try:
        fields = json.loads(body)
    except ValueError:
        fields = {}
    if not isinstance(fields, dict) or "code" not in fields:
        return ServerProblem(status, "unknown", f"cannot use the server's answer: status {status}")
    code = str(fields["code"])
    if code == "not_yet":
        return errors.NotYet(_text(fields), retry_after)
    make = _BY_CODE.get(code)
    return make(fields) if make is not None else ServerProblem(status, code, _text(fields))
