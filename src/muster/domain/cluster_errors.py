"""What Azure's errors mean, and what to do about them. By code; text is read for its figures alone.

Owns the table of codes. One code needs its text: `OperationNotAllowed` is Azure's word both for a quota that
is used up and for another operation that is still in progress.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from muster.domain.cluster_spec import ClusterSpec
from muster.domain.counting import counted
from muster.domain.errors import NameInUse, NotKnownYet, ProviderError, Refused, Throttled, Uncertain
from muster.domain.reasons import Reason

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
_IN_PROGRESS = re.compile(r"in progress|being (?:created|updated|deleted|deprovisioned)", re.IGNORECASE)
_QUOTA = re.compile(r"\bquota\b", re.IGNORECASE)


def translated(problem: Problem, *, doing: str) -> ProviderError:
    """What the caller does next: an error whose class says it, whose message says what to do."""
    said = _shortened(problem.message)
    if problem.status == TOO_MANY:
        return Throttled(f"cannot {doing} yet: Azure asks us to slow down", problem.retry_after or WAIT)
    told = next((each for each in problem.all() if _known(each)), problem)
    code = told.code.lower()
    if code == _NEW_PRINCIPAL:
        return NotKnownYet(f"cannot {doing} yet: {said}")
    if _is_busy(told):
        return Throttled(f"cannot {doing} yet: another operation is in progress", problem.retry_after or WAIT)
    if problem.status == PRECONDITION_FAILED:
        return NameInUse(f"cannot {doing}: something of that name is there")
    reason = _reason(told)
    if reason is not None:
        return Refused(f"cannot {doing}: {told.code}: {_shortened(told.message)}", reason)
    if problem.status >= SERVER_FAILED or problem.status == TIMED_OUT:
        return Uncertain(f"cannot {doing}: Azure failed ({told.code}: {said})")
    if code in _INTERNAL:
        return Refused(f"cannot {doing}: Azure failed inside ({told.code}): {said}", Reason.PROVIDER_ERROR)
    return Refused(f"cannot {doing}: {told.code}: {_shortened(told.message)}", Reason.PROVIDER_REFUSED)


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


# --- figures of a quota --------------------------------------------------------------------------

_LIMIT = re.compile(r"Current Limit:\s*(\d+)", re.IGNORECASE)
_USAGE = re.compile(r"Current Usage:\s*(\d+)", re.IGNORECASE)
_REQUIRED = re.compile(r"(?:Additional Required:|requested(?: quota)?)\s*(\d+)", re.IGNORECASE)
_LEFT = re.compile(r"(?:left regional vcpu quota|remaining)\s*(\d+)", re.IGNORECASE)
_WHICH = re.compile(
    r"approved\s+(.{1,80}?)\s+quota|for family\s+(\w{1,80})|Insufficient\s+(regional vcpu)", re.IGNORECASE
)


TO_DO = "raise the quota, or ask for fewer or smaller nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """How far a quota falls short, in vCPUs."""

    quota: str
    left: int
    wanted: int

    @property
    def missing(self) -> int:
        return max(0, self.wanted - self.left)


def shortage(message: str) -> Shortage | None:
    """The figures of a quota message; None if it has none that we can read."""
    wanted = _number(_REQUIRED, message)
    left = _number(_LEFT, message)
    limit, usage = _number(_LIMIT, message), _number(_USAGE, message)
    if left is None and limit is not None and usage is not None:
        left = max(0, limit - usage)
    if wanted is None or left is None:
        return None
    which = _WHICH.search(message)
    name = next((each for each in which.groups() if each), "") if which else ""
    return Shortage(quota=name or "vCPU", left=left, wanted=wanted)


def quota_advice(message: str, spec: ClusterSpec) -> str:
    """Which quota, how much is missing, and how many of the nodes would fit."""
    found = shortage(message)
    if found is None:
        return f"a quota in {spec.region} is used up; {TO_DO}"
    short = f"{counted(found.missing, 'vCPU')} short: {found.left} left of {found.wanted} wanted"
    fits = spec.nodes * found.left // found.wanted if found.wanted else spec.nodes
    nodes = counted(spec.nodes, "node")
    return (
        f"the {found.quota} quota in {spec.region} is {short}; about {fits} of the {nodes} would fit; {TO_DO}"
    )


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return int(found[1]) if found else None


def _shortened(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _MESSAGE_MOST else words[:_MESSAGE_MOST] + "…"
