"""Translate AWS's error codes. Pure; AWS's own text is always kept.

An unknown code is a refusal if AWS blames the caller (4xx), else uncertain.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from muster.domain.errors import ProviderError, Refused, Throttled, TokenSpent, Uncertain
from muster.domain.reasons import Reason

_CAPACITY = (
    "InsufficientInstanceCapacity",
    "InsufficientCapacity",
    "InsufficientHostCapacity",
    "InsufficientReservedInstanceCapacity",
    "InsufficientFreeAddressesInSubnet",
    "SpotMaxPriceTooLow",
    "UnfulfillableCapacity",
    "Unsupported",
)
_QUOTA = (
    "InstanceLimitExceeded",
    "MaxFleetCountExceeded",
    "MaxSpotInstanceCountExceeded",
    "MaxSpotFleetRequestCountExceeded",
    "SpotInstanceCountLimitExceeded",
    "VcpuLimitExceeded",
    "VolumeLimitExceeded",
)
_THROTTLED = (
    "EC2ThrottledException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
)
_SPENT = ("IdempotentInstanceTerminated", "IdempotentParameterMismatch")
_UNKNOWN_CALLER = (
    "AuthFailure",
    "ExpiredToken",
    "InvalidClientTokenId",
    "RequestExpired",
    "SignatureDoesNotMatch",
)
"""It isn't known who asks, so it doesn't matter for what."""
_FOR_NOW = ("InternalError", "InternalFailure", "ServiceUnavailable", "Unavailable")
"""From a single pool of a fleet: it had nothing to give for now."""
DENIED = ("UnauthorizedOperation", "AccessDenied", "AccessDeniedException")
UNKNOWN_MACHINE = ("InvalidInstanceID.Malformed", "InvalidInstanceID.NotFound", "InvalidInstanceId")
NO_LAUNCH_TEMPLATE = (
    "InvalidLaunchTemplateId.NotFound",
    "InvalidLaunchTemplateId.VersionNotFound",
    "InvalidLaunchTemplateName.NotFoundException",
)
_ENDED = {
    "Server.InsufficientInstanceCapacity": Reason.CAPACITY,
    "Server.InternalError": Reason.PROVIDER_ERROR,
    "Server.ScheduledStop": Reason.INTERRUPTED,
    "Server.SpotInstanceShutdown": Reason.INTERRUPTED,
    "Server.SpotInstanceTermination": Reason.INTERRUPTED,
    "Client.InternalError": Reason.PROVIDER_REFUSED,
    "Client.InvalidSnapshot.NotFound": Reason.PROVIDER_REFUSED,
    "Client.VolumeLimitExceeded": Reason.QUOTA,
}
"""AWS's state reasons. An end by the API, or by the machine itself, means no more than that the machine is
gone. Muster's own terminations are recorded here, and any other end counts as a manual deletion.
"""
_SHOWN = 600
AGAIN = 1.0
"""Seconds after which to ask again if nothing better is known."""
HELD = "RequestLimitExceeded"
SERVER_ERROR = 500


class AwsError(Exception):
    """AWS answered, with an error. Doesn't leave the adapter."""

    def __init__(self, code: str, text: str, status: int, *, pause: float = 0.0) -> None:
        self.code = code
        self.text = text
        self.status = status
        self.pause = pause
        """Seconds for which it is of no use to ask again."""
        super().__init__(f"{code}: {text}")


class NoAnswer(Exception):
    """It is unknown whether AWS got the request. Doesn't leave the adapter."""


class NotAsked(Exception):
    """AWS wasn't asked: there are no usable credentials, or the request is malformed. Stays inside, too."""


def reason_of(code: str) -> Reason:
    if code in _CAPACITY:
        return Reason.CAPACITY
    return Reason.QUOTA if code in _QUOTA else Reason.PROVIDER_REFUSED


def ended_by(code: str) -> Reason:
    """Return why a machine ended, by the code of its state reason."""
    return _ENDED.get(code, Reason.MACHINE_GONE)


def throttles(error: AwsError) -> bool:
    return error.code in _THROTTLED


def may_fit_fewer(error: AwsError) -> bool:
    """Return whether fewer machines may be allowed what a batch was refused."""
    return error.status < SERVER_ERROR and not throttles(error) and error.code not in _UNKNOWN_CALLER


def launch_error(error: AwsError | NoAnswer | NotAsked) -> ProviderError:
    """Return what an error of the launch call means."""
    if isinstance(error, AwsError) and error.code in _SPENT:
        return TokenSpent(f"EC2 knows the token: {error}")
    return preparation_error(error)


def preparation_error(error: AwsError | NoAnswer | NotAsked) -> ProviderError:
    """Return what an error before the launch call means. It says nothing about an earlier launch call."""
    if isinstance(error, NoAnswer):
        return Uncertain(f"EC2 gave no answer: {error}")
    if isinstance(error, NotAsked):
        return Refused(f"cannot ask EC2: {error}", Reason.PROVIDER_REFUSED)
    if throttles(error):
        return Throttled(f"EC2 throttles: {error}", error.pause or AGAIN)
    if error.code in NO_LAUNCH_TEMPLATE:
        return Throttled(f"the launch template is gone and will be made again ({error})", AGAIN)
    # EC2 answers that it has no capacity with 500, and then nothing was made.
    if error.status >= SERVER_ERROR and reason_of(error.code) is Reason.PROVIDER_REFUSED:
        return Uncertain(f"EC2 failed: {error}")
    return Refused(f"EC2 refused: {error}", reason_of(error.code))


def look_error(error: AwsError | NoAnswer | NotAsked) -> ProviderError:
    """Return what an error means for a look or a termination: nothing is known."""
    if isinstance(error, AwsError) and throttles(error):
        return Throttled(f"EC2 throttles: {error}", error.pause or AGAIN)
    return Uncertain(f"EC2 gave no clear answer: {error}")


def fleet_errors(errors: Sequence[Mapping[str, Any]]) -> tuple[Reason | None, str]:
    """Return why a fleet came short. A quota outweighs capacity, and capacity the rest.

    A throttled pool wasn't tried, so asking again may help. It does not help against a quota or an error that
    may concern all pools.
    """
    texts = dict.fromkeys(f"{each.get('ErrorCode')}: {each.get('ErrorMessage', '')}" for each in errors)
    codes = [str(each.get("ErrorCode")) for each in errors]
    reasons = [_of_pool(code) for code in codes]
    message = "; ".join(texts)[:_SHOWN]
    if Reason.PROVIDER_REFUSED in reasons:
        reasons = [reason for reason in reasons if reason is not Reason.THROTTLED]
    for reason in (Reason.QUOTA, Reason.THROTTLED, Reason.CAPACITY, Reason.PROVIDER_REFUSED):
        if reason in reasons:
            return reason, message
    return None, message


def _of_pool(code: str) -> Reason:
    if code in _THROTTLED:
        return Reason.THROTTLED
    return Reason.CAPACITY if code in _FOR_NOW else reason_of(code)
