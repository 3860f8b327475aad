import pytest

from muster.domain import errors
from muster.domain.errors import (
    Ambiguous,
    CapReached,
    Conflict,
    IdempotencyMismatch,
    InvalidRequest,
    LeaseLost,
    MusterError,
    NotFound,
    NotYet,
    ProviderError,
    Refused,
    Throttled,
)
from muster.domain.reasons import ADVICE, Reason
from muster.domain.text import counted

DESIGNED = (
    "capacity quota cap_reached above_cap boot_timeout boot_stalled boot_script_failed attach_failed "
    "heartbeat_lost machine_gone provider_refused provider_error deadline_exceeded max_runtime idle_timeout "
    "release_timeout partial_launch retired reuse duplicate_join operator cancelled interrupted internal"
)


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_comes_with_advice(reason: Reason) -> None:
    assert len(ADVICE[reason]) > len("do x")
    assert not ADVICE[reason].endswith(".")


def test_advice_is_given_once_per_reason() -> None:
    assert len(set(ADVICE.values())) == len(Reason)


def test_every_reason_of_the_design_exists() -> None:
    assert set(DESIGNED.split()) <= {reason.value for reason in Reason}


def test_every_error_belongs_to_the_one_tree() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert len(kinds) > 10
    assert all(issubclass(kind, MusterError) for kind in kinds)


def test_a_lost_lease_is_a_conflict_and_a_used_key_a_bad_request() -> None:
    assert issubclass(LeaseLost, Conflict)
    assert issubclass(IdempotencyMismatch, InvalidRequest)


def test_a_used_key_names_the_operation_that_used_it() -> None:
    error = IdempotencyMismatch("key-1", "op-7")
    assert (error.field, error.value, error.operation_id) == ("idempotency_key", "key-1", "op-7")
    assert "op-7" in str(error) and "choose a new key" in str(error)


def test_what_is_not_found_is_named_shortly() -> None:
    assert str(NotFound("template", "web")) == "cannot find template 'web'"
    assert len(str(NotFound("template", "w" * 10_000))) < 200


def test_a_value_is_shown_in_full_up_to_a_length_and_cut_beyond() -> None:
    whole = "w" * (errors._SHOWN - len("''"))
    assert str(NotFound("run", whole)).endswith(f"'{whole}'")
    assert str(NotFound("run", whole + "w")).endswith(f"'{whole}w…")


def test_an_ambiguous_run_lists_its_provisions() -> None:
    error = Ambiguous("run-1", ("op-1", "op-2"))
    assert (error.run, error.operation_ids) == ("run-1", ("op-1", "op-2"))
    assert "'run-1'" in str(error) and "op-1, op-2" in str(error)


@pytest.mark.parametrize(("used", "wanted", "short_by"), [(8, 3, 1), (10, 1, 1), (12, 1, 3), (0, 25, 15)])
def test_a_reached_cap_says_how_much_is_short(used: int, wanted: int, short_by: int) -> None:
    error = CapReached(scope="template/web", used=used, cap=10, wanted=wanted)
    assert error.short_by == short_by
    assert str(error) == f"cannot launch {counted(wanted, 'node')}: template web uses {used} of 10"


def test_who_has_to_wait_is_told_how_long() -> None:
    assert (NotYet("soon", 2.5).retry_after, str(NotYet("soon", 2.5))) == (2.5, "soon")
    assert (Throttled("slow", 3.5).retry_after, str(Throttled("slow", 3.5))) == (3.5, "slow")


def test_a_failed_call_carries_its_reason() -> None:
    assert ProviderError("oops").reason is Reason.PROVIDER_ERROR
    assert Refused("no", Reason.QUOTA).reason is Reason.QUOTA
