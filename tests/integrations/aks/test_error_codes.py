"""What Azure's errors mean: by code, with what to do, on the examples that people meet."""

import pytest

from muster.domain.errors import Refused, Throttled, Uncertain
from muster.domain.reasons import ADVICE, Reason
from muster.integrations.aks.azure import NameInUse, NotKnownYet
from muster.integrations.aks.error_codes import WAIT, Problem, translated

REGIONAL = (
    "Operation could not be completed as it results in exceeding approved Total Regional Cores quota."
    " Additional details - Deployment Model: Resource Manager, Location: westeurope, Current Limit: 24,"
    " Current Usage: 4, Additional Required: 44, (Minimum) New Limit Required: 48."
)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("QuotaExceeded", Reason.QUOTA),
        ("ErrCode_InsufficientVCPUQuota", Reason.QUOTA),
        ("SkuNotAvailable", Reason.SKU_UNAVAILABLE),
        ("VMSizeNotSupported", Reason.SKU_UNAVAILABLE),
        ("AuthorizationFailed", Reason.PERMISSION),
        ("LinkedAuthorizationFailed", Reason.PERMISSION),
        ("InvalidResourceGroupLocation", Reason.REGION_MISMATCH),
        ("InvalidResourceLocation", Reason.REGION_MISMATCH),
        ("AllocationFailed", Reason.CAPACITY),
        ("InternalOperationError", Reason.PROVIDER_ERROR),
        ("SomethingNew", Reason.PROVIDER_REFUSED),
    ],
)
def test_work_that_failed_is_classified_by_its_code_and_not_repeated(code: str, reason: Reason) -> None:
    for told in (code, code.upper()):
        error = translated(Problem(code=told, message="No."), doing="make it")
        assert isinstance(error, Refused)
        assert error.reason is reason
        assert str(error).startswith("cannot make it: ")
    assert ADVICE[reason]


def test_the_code_inside_tells_more_than_the_one_around_it() -> None:
    inner = Problem(code="SkuNotAvailable", message="Not here.")
    wrapped = Problem(
        code="BadRequest", message="It failed.", details=(Problem(code="X", message="", details=(inner,)),)
    )
    error = translated(wrapped, doing="make it")
    assert error.reason is Reason.SKU_UNAVAILABLE
    assert "Not here." in str(error)


def test_one_code_is_told_apart_by_what_it_says() -> None:
    busy = Problem(
        status=409, code="OperationNotAllowed", message="Another operation (Create) is in progress."
    )
    full = Problem(status=409, code="OperationNotAllowed", message=REGIONAL)
    plain = Problem(status=409, code="OperationNotAllowed", message="Not on a stopped cluster.")
    assert isinstance(translated(busy, doing="x"), Throttled)
    assert translated(full, doing="x").reason is Reason.QUOTA
    assert translated(plain, doing="x").reason is Reason.PROVIDER_REFUSED


def test_throttling_waits_as_told_or_as_long_as_between_two_polls() -> None:
    for told, waits in ((17.0, 17.0), (None, WAIT)):
        error = translated(
            Problem(status=429, code="TooManyRequests", message="", retry_after=told), doing="x"
        )
        assert isinstance(error, Throttled)
        assert error.retry_after == waits


@pytest.mark.parametrize("status", [408, 500, 502, 503, 504])
def test_an_answer_that_proves_nothing_is_uncertain(status: int) -> None:
    error = translated(Problem(status=status, code="InternalServerError", message=""), doing="x")
    assert isinstance(error, Uncertain)


@pytest.mark.parametrize("status", [401, 403])
def test_not_being_allowed_is_told_by_the_status_too(status: int) -> None:
    assert translated(Problem(status=status, code="Odd", message=""), doing="x").reason is Reason.PERMISSION


def test_a_new_principal_and_a_name_in_use_have_classes_of_their_own() -> None:
    assert isinstance(
        translated(Problem(status=400, code="PrincipalNotFound", message=""), doing="x"), NotKnownYet
    )
    assert isinstance(
        translated(Problem(status=412, code="PreconditionFailed", message=""), doing="x"), NameInUse
    )


def test_long_words_are_cut() -> None:
    assert len(str(translated(Problem(code="X", message="word " * 1000), doing="x"))) < 700
