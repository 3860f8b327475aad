"""Settings that could only do harm are refused where they are made, naming the key."""

import math
from dataclasses import fields
from typing import Any

import pytest

from muster.domain import checks
from muster.domain.deadlines import Limits
from muster.domain.errors import InvalidRequest
from muster.domain.settings import Settings
from tests.domain.builders import SMALLEST, kind

TIMES = ("lease", "renew_every", "present_every", "poll_every", "flush_every", "retention")
NO_TIMES = [math.nan, math.inf, -math.inf, -1.0, -SMALLEST, checks.SECONDS_MAX + 1, True, "60", None]
LIMITS = [each.name for each in fields(Limits) if each.default is not None]
"""None is a value of the others: no limit of their own."""


def refused(made: type[Settings] | type[Limits], key: str, value: object) -> InvalidRequest:
    given: dict[str, Any] = {key: value}
    with pytest.raises(InvalidRequest) as caught:
        made(**given)
    assert caught.value.field == key
    assert caught.value.value is value
    return caught.value


@pytest.mark.parametrize("value", [*NO_TIMES, 0, 0.0], ids=kind)
@pytest.mark.parametrize("key", LIMITS)
def test_a_limit_is_a_time_above_zero(key: str, value: object) -> None:
    refused(Limits, key, value)


@pytest.mark.parametrize("value", [*NO_TIMES, 0, 0.0], ids=kind)
@pytest.mark.parametrize("key", TIMES)
def test_a_time_of_the_settings_is_above_zero(key: str, value: object) -> None:
    refused(Settings, key, value)


@pytest.mark.parametrize("value", NO_TIMES, ids=kind)
def test_progress_may_be_published_at_once_but_not_before(value: object) -> None:
    refused(Settings, "publish_every", value)
    assert Settings(publish_every=0.0).publish_every == 0.0


@pytest.mark.parametrize(("key", "least"), [("driven_at_once", 1), ("errors_most", 1), ("orphans_floor", 0)])
def test_a_number_of_the_settings_is_whole_and_not_too_small(key: str, least: int) -> None:
    for value in (least - 1, -5, 2.5, math.nan, True, "3", None, checks.MACHINES_MAX + 1):
        refused(Settings, key, value)
    for value in (least, checks.MACHINES_MAX):
        given: dict[str, Any] = {key: value}
        assert getattr(Settings(**given), key) == value


def test_a_replica_gives_signs_of_life_more_often_than_its_silence_is_judged() -> None:
    for value in (*NO_TIMES[:-1], 0, 0.0):
        refused(Settings, "absent_after", value)
    refused(Settings, "present_every", Settings().absent_after)
    assert Settings(absent_after=None, present_every=60.0).absent_after is None


def test_a_share_is_none_to_all() -> None:
    for value in (-SMALLEST, 1 + SMALLEST, math.nan, math.inf, True, "0.2", None):
        refused(Settings, "orphans_share", value)
    for share in (0.0, 0.5, 1.0):
        assert Settings(orphans_share=share).orphans_share == share


def test_a_lease_is_renewed_before_it_ends() -> None:
    for every in (10.0, 10.0 + SMALLEST, 100.0):
        with pytest.raises(InvalidRequest, match=r"renew_every.*below lease \(10 s\)"):
            Settings(lease=10.0, renew_every=every)
    assert Settings(lease=10.0, renew_every=10.0 - SMALLEST).lease == 10.0


def test_the_defaults_are_good() -> None:
    assert Settings().limits == Limits()
