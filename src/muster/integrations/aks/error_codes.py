"""Explain Azure's errors by their codes, and what to do about them.

This module owns the table of codes. One code needs its text: `OperationNotAllowed`. Azure uses it both for a
used-up quota and for another operation in progress.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from muster.domain.errors import (
    ProviderError,
    Refused,
    Throttled,
    Uncertain,
)
from muster.domain.reasons import Reason
from muster.integrations.aks.azure import GroupMissing, NameInUse, NotKnownYet

WAIT = 20.0
"""Seconds until another try if Azure doesn't say: as long as between two polls."""
_MESSAGE_MOST = 600
TOO_MANY, PRECONDITION_FAILED, TIMED_OUT, SERVER_FAILED = 429, 412, 408, 500
NOT_ALLOWED = (401, 403)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An error as Azure told it. Codes in `details` are more to the point than the one around them."""

    code: str
    message: str
    status: int = 0
    """Of HTTP; 0: it is the outcome of an operation that was accepted before."""
    retry_after: float | None = None
    details: tuple["Problem", ...] = ()

    def all(self) -> Iterator["Problem"]:
        for each in self.details:
            yield from each.all()
        yield self


_REASONS: dict[str, Reason] = {
    "quotaexceeded": Reason.QUOTA,
    "errcode_insufficientvcpuquota": Reason.QUOTA,
    "insufficientvcpuquota": Reason.QUOTA,
    "insufficientsubnetsize": Reason.QUOTA,
    "subscriptionquotareached": Reason.QUOTA,
    "skunotavailable": Reason.SKU_UNAVAILABLE,
    "vmsizenotsupported": Reason.SKU_UNAVAILABLE,
    "vmsizenotavailable": Reason.SKU_UNAVAILABLE,
    "notavailableforsubscription": Reason.SKU_UNAVAILABLE,
    "allocationfailed": Reason.CAPACITY,
    "zonalallocationfailed": Reason.CAPACITY,
    "overconstrainedallocationrequest": Reason.CAPACITY,
    "overconstrainedzonalallocationrequest": Reason.CAPACITY,
    "akscapacityerror": Reason.CAPACITY,
    "akscapacityheavyusage": Reason.CAPACITY,
    "authorizationfailed": Reason.PERMISSION,
    "linkedauthorizationfailed": Reason.PERMISSION,
    "forbidden": Reason.PERMISSION,
    "requestdisallowedbypolicy": Reason.PERMISSION,
    "roleassignmentupdatenotpermitted": Reason.PERMISSION,
    "invalidauthenticationtoken": Reason.PERMISSION,
    "expiredauthenticationtoken": Reason.PERMISSION,
    "subscriptionnotfound": Reason.PERMISSION,
    "invalidresourcegrouplocation": Reason.REGION_MISMATCH,
    "invalidresourcelocation": Reason.REGION_MISMATCH,
    "locationnotavailableforresourcetype": Reason.REGION_MISMATCH,
    "operationpreempted": Reason.CANCELLED,
    "canceled": Reason.CANCELLED,
    "operationcanceled": Reason.CANCELLED,
}
_INTERNAL = (
    "internalservererror",
    "internaloperationerror",
    "internalerror",
    "serviceunavailable",
    "gatewaytimeout",
)
_BUSY = (
    "anotheroperationinprogress",
    "operationinprogress",
    "conflictingconcurrentwritenotallowed",
    "etagmismatch",
    "resourcegroupbeingdeleted",
)
_AMBIGUOUS = ("operationnotallowed", "conflict")
_NEW_PRINCIPAL = "principalnotfound"
_NO_GROUP = "resourcegroupnotfound"
_IN_PROGRESS = re.compile(r"in progress|being (?:created|updated|deleted|deprovisioned)", re.IGNORECASE)
_QUOTA = re.compile(r"\bquota\b", re.IGNORECASE)


def translated(problem: Problem, *, doing: str) -> ProviderError:
    """What the caller does next: an error whose class says it, whose message says what to do."""
    said = _shortened(problem.message)
    if problem.status == TOO_MANY:
        return Throttled(f"cannot {doing} yet: Azure throttles requests", problem.retry_after or WAIT)
    told = next((each for each in problem.all() if _known(each)), problem)
    code = told.code.lower()
    if code == _NEW_PRINCIPAL:
        return NotKnownYet(f"cannot {doing} yet: {said}")
    if _is_busy(told):
        return Throttled(f"cannot {doing} yet: another operation is in progress", problem.retry_after or WAIT)
    if problem.status == PRECONDITION_FAILED:
        return NameInUse(f"cannot {doing}: another resource has that name")
    reason = _reason(told)
    if reason is not None:
        return Refused(f"cannot {doing}: {told.code}: {_shortened(told.message)}", reason)
    if problem.status >= SERVER_FAILED or problem.status == TIMED_OUT:
        return Uncertain(f"cannot {doing}: Azure failed ({told.code}: {said})")
    if code in _INTERNAL:
        return Refused(f"cannot {doing}: Azure failed inside ({told.code}): {said}", Reason.PROVIDER_ERROR)
    refusal = GroupMissing if code == _NO_GROUP else Refused
    return refusal(f"cannot {doing}: {told.code}: {_shortened(told.message)}", Reason.PROVIDER_REFUSED)


def _known(problem: Problem) -> bool:
    code = problem.code.lower()
    return code in _REASONS or code in _BUSY or code == _NEW_PRINCIPAL or code in _AMBIGUOUS


def _is_busy(problem: Problem) -> bool:
    code = problem.code.lower()
    return code in _BUSY or (code in _AMBIGUOUS and bool(_IN_PROGRESS.search(problem.message)))


def _reason(problem: Problem) -> Reason | None:
    code = problem.code.lower()
    if code in _AMBIGUOUS and _QUOTA.search(problem.message):
        return Reason.QUOTA
    if problem.status in NOT_ALLOWED:
        return Reason.PERMISSION
    return _REASONS.get(code)


def _shortened(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _MESSAGE_MOST else words[:_MESSAGE_MOST] + "…"
