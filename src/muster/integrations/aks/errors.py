"""Translate the SDKs' errors once into what the caller does next.

Status, code and details are read from the answer's body. A failed long-running operation comes as an error
with status 200, so only its code counts.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.core.polling.base_polling import BadResponse, BadStatus
from azure.mgmt.core.polling.async_arm_polling import AsyncARMPolling

from muster.domain.errors import ProviderError, Refused, Throttled, Uncertain
from muster.domain.reasons import Reason
from muster.integrations.aks.azure import NameInUse, TrackLost
from muster.integrations.aks.error_codes import WAIT, Problem, translated

_DETAILS_MOST = 20
_DEPTH_MOST = 5


class NotThere(ProviderError):
    """It isn't there: 404. Never leaves this package."""

    def __init__(self, refusal: Refused) -> None:
        self.refusal = refusal
        super().__init__(str(refusal))


class Conflicting(ProviderError):
    """409 with a code of its own. Never leaves this package."""

    def __init__(self, problem: Problem, error: ProviderError) -> None:
        self.problem = problem
        self.error = error
        super().__init__(str(error))


@contextmanager
def translate_errors(doing: str) -> Iterator[None]:
    try:
        yield
    except ClientAuthenticationError as error:
        if not _by_arm(error):
            raise Uncertain(f"cannot {doing}: no token could be had to ask Azure: {_said(error)}") from error
        raise Refused(
            f"cannot {doing}: Azure refused the credentials: {_said(error)}", Reason.PERMISSION
        ) from error
    except HttpResponseError as error:
        raise of_answer(error, doing) from error
    except (ServiceRequestError, ServiceResponseError) as error:
        raise Uncertain(f"cannot {doing}: Azure can't be reached: {_said(error)}") from error
    except AzureError as error:
        raise Uncertain(f"cannot {doing}: {_said(error)}") from error


def _by_arm(error: ClientAuthenticationError) -> bool:
    """Return whether the resource manager itself refused our token. Otherwise the token service may just
    be away."""
    url = str(getattr(getattr(error.response, "request", None), "url", ""))
    return urlsplit(url).path.startswith("/subscriptions/")


@contextmanager
def translate_poll_errors(doing: str, method: AsyncARMPolling | None = None) -> Iterator[None]:
    """Translate the errors of one poll. They are no outcome of the operation: never Refused.

    `method`: the polling method; None while the token is read. For an answer that isn't a success, the SDK
    raises exceptions without status or body. For a token that it can't read, it raises ValueError.
    """
    try:
        with raise_translation(), translate_errors(doing):
            yield
    except (BadStatus, BadResponse) as error:
        raise _of_poll(error, doing, method) from error
    except ValueError as error:
        raise TrackLost(f"cannot {doing}: its token can't be read") from error
    except NotThere as error:
        raise TrackLost(str(error)) from error
    except Refused as error:
        raise Uncertain(str(error)) from error


def _of_poll(error: Exception, doing: str, method: AsyncARMPolling | None) -> ProviderError:
    answer = getattr(getattr(method, "_pipeline_response", None), "http_response", None)
    status = getattr(answer, "status_code", 0)
    if status == HTTPStatus.NOT_FOUND:
        return TrackLost(f"cannot {doing}: Azure doesn't know of it (any more)")
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        wait = _number(getattr(answer, "headers", {}).get("Retry-After"))
        return Throttled(f"cannot {doing} yet: Azure throttles requests", wait or WAIT)
    return Uncertain(f"cannot {doing}: {_said(error)}")


def of_answer(error: HttpResponseError, doing: str) -> ProviderError:
    problem = problem_of(error)
    told = translated(problem, doing=doing)
    if problem.status == HTTPStatus.NOT_FOUND and isinstance(told, Refused):
        return NotThere(told) if told.reason is Reason.PROVIDER_REFUSED else told
    if problem.status == HTTPStatus.PRECONDITION_FAILED:
        return NameInUse(str(told))
    return Conflicting(problem, told) if problem.status == HTTPStatus.CONFLICT else told


def problem_of(error: HttpResponseError) -> Problem:
    status = error.status_code or 0
    found = _problem(_told(error), depth=0)
    if found is None:
        code = str(getattr(error.error, "code", "") or error.reason or "Unknown")
        found = Problem(code=code, message=error.message or "")
    headers = getattr(error.response, "headers", {})
    retry_after = _number(headers.get("Retry-After"))
    # An operation that was accepted and then failed is told with a success: what matters is its code.
    own = status if status >= HTTPStatus.BAD_REQUEST else 0
    return Problem(
        code=found.code, message=found.message, status=own, retry_after=retry_after, details=found.details
    )


def _told(error: HttpResponseError) -> Any:
    """Return the error in the answer's body; empty if it can't be read."""
    read = getattr(error.response, "json", None)
    try:
        data = read() if read is not None else {}
    except Exception:
        return {}
    if not isinstance(data, dict):
        return {}
    # A cancelled operation has a status and no error.
    return data.get("error") or {"code": data.get("status"), "message": data.get("message"), **data}


def _problem(data: Any, *, depth: int) -> Problem | None:
    if not isinstance(data, dict) or not data.get("code") or depth > _DEPTH_MOST:
        return None
    details = data.get("details")
    inner = [
        _problem(each, depth=depth + 1)
        for each in (details if isinstance(details, list) else [])[:_DETAILS_MOST]
    ]
    return Problem(
        code=str(data["code"]),
        message=str(data.get("message") or ""),
        details=tuple(each for each in inner if each is not None),
    )


def of_detail(detail: Any) -> Problem | None:
    """Return the error that a cluster carries in its own record."""
    if detail is None or not getattr(detail, "code", None):
        return None
    inner = [of_detail(each) for each in (getattr(detail, "details", None) or [])[:_DETAILS_MOST]]
    return Problem(
        code=str(detail.code),
        message=str(getattr(detail, "message", "") or ""),
        details=tuple(each for each in inner if each is not None),
    )


def _number(text: Any) -> float | None:
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


def _said(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]


@contextmanager
def refuse_if_missing(what: str) -> Iterator[None]:
    """Turn a missing prerequisite into a refusal: asking again won't bring it."""
    try:
        yield
    except NotThere as error:
        raise type(error.refusal)(f"{error}; {what}", Reason.PROVIDER_REFUSED) from error


@contextmanager
def raise_translation() -> Iterator[None]:
    """Raise the translation of a conflict that has no meaning of its own here."""
    try:
        yield
    except Conflicting as conflict:
        raise conflict.error from conflict
