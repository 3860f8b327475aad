import pytest

from muster.domain.errors import ProviderError, Refused, Throttled, TokenSpent, Uncertain
from muster.domain.reasons import Reason
from muster.integrations.ec2 import errors
from muster.integrations.ec2.errors import AwsError, NoAnswer, NotAsked

TEXT = "in AWS's own words"


@pytest.mark.parametrize(
    ("code", "status", "kind", "reason"),
    [
        ("InsufficientInstanceCapacity", 400, Refused, Reason.CAPACITY),
        ("VcpuLimitExceeded", 400, Refused, Reason.QUOTA),
        ("MaxSpotInstanceCountExceeded", 400, Refused, Reason.QUOTA),
        ("UnauthorizedOperation", 403, Refused, Reason.PROVIDER_REFUSED),
        ("InvalidAMIID.NotFound", 400, Refused, Reason.PROVIDER_REFUSED),
        ("ACodeOfNextYear", 400, Refused, Reason.PROVIDER_REFUSED),
        ("RequestLimitExceeded", 503, Throttled, None),
        ("Throttling", 400, Throttled, None),
        ("IdempotentParameterMismatch", 400, TokenSpent, None),
        ("InvalidLaunchTemplateName.NotFoundException", 400, Throttled, None),
        ("InternalError", 500, Uncertain, None),
        ("InsufficientInstanceCapacity", 500, Refused, Reason.CAPACITY),
        ("Unavailable", 503, Uncertain, None),
    ],
)
def test_an_answer_says_what_is_known_of_machines_and_keeps_the_text(
    code: str, status: int, kind: type[ProviderError], reason: Reason | None
) -> None:
    error = errors.launch_error(AwsError(code, TEXT, status, pause=3.0))
    assert type(error) is kind and TEXT in str(error) and code in str(error)
    if reason is not None:
        assert error.reason is reason
    if isinstance(error, Throttled):
        assert error.retry_after == (1.0 if "LaunchTemplate" in code else 3.0)


def test_without_an_answer_anything_may_have_happened_and_without_a_question_nothing() -> None:
    assert type(errors.launch_error(NoAnswer("closed"))) is Uncertain
    refused = errors.launch_error(NotAsked("no credentials"))
    assert type(refused) is Refused and "no credentials" in str(refused)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (AwsError("RequestLimitExceeded", TEXT, 503), Throttled),
        (AwsError("UnauthorizedOperation", TEXT, 403), Uncertain),
        (NoAnswer(TEXT), Uncertain),
        (NotAsked(TEXT), Uncertain),
    ],
)
def test_a_look_that_fails_says_nothing_about_machines(
    error: AwsError | NoAnswer | NotAsked, kind: type[ProviderError]
) -> None:
    found = errors.look_error(error)
    assert type(found) is kind and TEXT in str(found)


def fleet_error(code: str, text: str = TEXT) -> dict[str, str]:
    return {"ErrorCode": code, "ErrorMessage": text}


def test_of_several_reasons_the_one_that_waiting_helps_least_comes_first() -> None:
    capacity, quota, other = (
        fleet_error(code) for code in ("InsufficientInstanceCapacity", "VcpuLimitExceeded", "InvalidFleet")
    )
    assert errors.fleet_errors([])[0] is None
    assert errors.fleet_errors([other])[0] is Reason.PROVIDER_REFUSED
    assert errors.fleet_errors([other, capacity])[0] is Reason.CAPACITY
    assert errors.fleet_errors([other, capacity, quota])[0] is Reason.QUOTA


def test_pools_that_were_throttled_are_worth_another_try_if_nothing_stands_against_all_of_them() -> None:
    throttled, capacity, quota, other = (
        fleet_error(code)
        for code in (
            "RequestLimitExceeded",
            "InsufficientInstanceCapacity",
            "VcpuLimitExceeded",
            "UnauthorizedOperation",
        )
    )
    assert errors.fleet_errors([capacity, throttled])[0] is Reason.THROTTLED
    assert errors.fleet_errors([throttled, quota])[0] is Reason.QUOTA
    assert errors.fleet_errors([throttled, other])[0] is Reason.PROVIDER_REFUSED
    assert errors.fleet_errors([throttled, other, capacity])[0] is Reason.CAPACITY


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("Unsupported", Reason.CAPACITY),
        ("MaxFleetCountExceeded", Reason.QUOTA),
        ("RequestLimitExceeded", Reason.THROTTLED),
        ("InternalError", Reason.CAPACITY),
    ],
)
def test_what_one_pool_lacks_is_no_refusal_of_the_whole(code: str, reason: Reason) -> None:
    assert errors.fleet_errors([fleet_error(code)])[0] is reason


def test_the_same_error_of_many_pools_is_told_once_and_never_endlessly() -> None:
    _, message = errors.fleet_errors([fleet_error("Unsupported")] * 20)
    assert message == f"Unsupported: {TEXT}"
    _, message = errors.fleet_errors([fleet_error("Unsupported", "x" * 99 + str(n)) for n in range(99)])
    assert len(message) < 1000
