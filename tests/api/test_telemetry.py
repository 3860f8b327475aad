"""How calls went lately: what is counted, what is forgotten, and that a watched provider is the same."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from muster.api.prometheus import MILLISECONDS
from muster.api.telemetry import SLICE, WINDOW, CallWindow, Telemetry
from muster.domain.errors import Refused, StoreUnavailable, Throttled, TokenSpent, Uncertain
from muster.domain.findings import Culprit
from muster.domain.observations import Calls
from muster.domain.reasons import Reason
from muster.domain.redaction import MARK
from muster.ports.provider import NodeProvider
from tests.operations.test_single_flight import ManualClock

NOW = 100 * SLICE


def test_durations_are_told_by_the_edge_that_they_stay_below() -> None:
    recent = CallWindow((0.1, 1.0))
    for seconds in [0.05] * 94 + [0.5] * 5 + [7.0]:
        recent.add(seconds, now=NOW)
    found = recent.calls(now=NOW)
    assert (found.calls, found.p50, found.p95, found.p99) == (100, 0.1, 1.0, 1.0)
    recent.add(7.0, now=NOW)
    assert recent.calls(now=NOW).p99 == 2.0, "beyond the last edge"


def test_no_calls_are_no_durations() -> None:
    assert CallWindow(MILLISECONDS).calls(now=NOW) == Calls(window=WINDOW)


@pytest.mark.parametrize(("later", "counted"), [(WINDOW - SLICE, 2), (WINDOW - 1.0, 2), (WINDOW, 1)])
def test_what_is_older_than_the_window_is_forgotten(later: float, counted: int) -> None:
    recent = CallWindow(MILLISECONDS)
    recent.add(0.1, now=NOW, failed=True, error="old")
    recent.add(0.1, now=NOW + SLICE, throttled=True)
    found = recent.calls(now=NOW + later)
    assert (found.calls, found.errors, found.throttled) == (counted, counted - 1, 1)
    assert recent.calls(now=NOW + 2 * WINDOW) == Calls(window=WINDOW)


def test_memory_is_bounded_however_long_it_goes_on() -> None:
    recent = CallWindow(MILLISECONDS)
    for n in range(10_000):
        recent.add(0.001, now=float(n))
    assert recent.calls(now=9_999.0).calls <= WINDOW
    assert len(recent._slices) == WINDOW / SLICE


def test_a_clock_that_goes_back_loses_nothing() -> None:
    recent = CallWindow(MILLISECONDS)
    recent.add(0.001, now=NOW)
    recent.add(0.001, now=NOW - 3 * SLICE)
    assert recent.calls(now=NOW).calls == 2


class ScriptedProvider:
    """A provider that does whatever it is told next."""

    name = "moody"
    visibility_window = 7.0
    call_timeout = 0.0
    makes_way = frozenset({Reason.QUOTA})

    def __init__(self) -> None:
        self.raising: Exception | None = None
        self.asked: list[tuple[Any, ...]] = []

    async def _do(self, *asked: Any) -> str:
        self.asked.append(asked)
        if self.raising is not None:
            raise self.raising
        return "answer"

    async def launch(self, request: object) -> str:
        return await self._do("launch", request)

    async def find(self, token: str) -> str:
        return await self._do("find", token)

    async def list(self) -> AsyncIterator[str]:
        for machine in ("m-1", "m-2"):
            yield machine
            await self._do("list")

    async def describe(self, machine_ids: object) -> str:
        return await self._do("describe", machine_ids)

    async def console(self, machine_id: str, *, lines: int) -> str:
        return await self._do("console", machine_id, lines)

    async def terminate(self, machine_ids: object) -> None:
        await self._do("terminate", machine_ids)


def watched() -> tuple[ScriptedProvider, NodeProvider, Telemetry, ManualClock]:
    inner, telemetry, clock = ScriptedProvider(), Telemetry(), ManualClock()
    return inner, telemetry.watched(cast("NodeProvider", inner), clock), telemetry, clock


async def test_a_watched_provider_is_asked_and_answers_like_itself() -> None:
    inner, provider, telemetry, clock = watched()
    assert (provider.name, provider.visibility_window, provider.call_timeout) == ("moody", 7.0, 0.0)
    asked: Any = provider
    assert [await asked.launch("r"), await asked.find("t"), await asked.describe(["m"])] == ["answer"] * 3
    assert await asked.console("m", lines=3) == "answer"
    await asked.terminate(["m"])
    assert [machine async for machine in asked.list()] == ["m-1", "m-2"]
    assert [each[0] for each in inner.asked] == [
        "launch",
        "find",
        "describe",
        "console",
        "terminate",
        "list",
        "list",
    ]
    (found,) = telemetry.dependencies(now=clock.time)
    assert (found.name, found.calls.calls, found.calls.errors, found.culprit) == (
        "moody",
        6,
        0,
        Culprit.CLOUD,
    )


@pytest.mark.parametrize(
    ("error", "errors", "throttled"),
    [
        (Uncertain("no answer, token=hunter2hunter2\nmore"), 1, 0),
        (Refused("not allowed", Reason.PROVIDER_REFUSED), 1, 0),
        (Refused("no room", Reason.CAPACITY), 0, 0),
        (Refused("no more for you", Reason.QUOTA), 0, 0),
        (ValueError("a bug"), 1, 0),
        (Throttled("later", retry_after=1.0), 0, 1),
        (TokenSpent("it happened"), 0, 0),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
async def test_errors_are_counted_by_what_they_mean_and_passed_on(
    error: Exception, errors: int, throttled: int
) -> None:
    inner, provider, telemetry, clock = watched()
    inner.raising = error
    with pytest.raises(type(error)):
        await provider.describe(["m"])
    with pytest.raises(type(error)):
        _ = [machine async for machine in provider.list()]
    calls = telemetry.dependencies(now=clock.time)[0].calls
    assert (calls.calls, calls.errors, calls.throttled) == (2, 2 * errors, 2 * throttled)
    assert "hunter2" not in calls.last_error and "\n" not in calls.last_error
    assert calls.last_error.startswith(type(error).__name__) == bool(errors)
    if isinstance(error, Uncertain):
        assert MARK in calls.last_error


async def test_a_call_that_was_given_up_counts_as_an_error_only_if_it_took_its_time() -> None:
    inner, provider, telemetry, clock = watched()
    inner.raising = cast("Exception", asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await provider.find("t")
    assert telemetry.dependencies(now=clock.time)[0].calls.errors == 1, "longer than its time of none"
    patient = ScriptedProvider()
    patient.name, patient.call_timeout = "patient", 60.0
    patient.raising = inner.raising
    with pytest.raises(asyncio.CancelledError):
        await telemetry.watched(cast("NodeProvider", patient), clock).find("t")
    assert telemetry.dependencies(now=clock.time)[1].calls.errors == 0


def test_github_is_told_apart_from_clouds() -> None:
    telemetry = Telemetry()
    telemetry.took("github", "runners", 0.1, None, now=NOW, culprit=Culprit.RUNTIME)
    assert [each.culprit for each in telemetry.dependencies(now=NOW)] == [Culprit.RUNTIME]


def test_only_a_store_that_is_away_counts_as_a_failing_store() -> None:
    telemetry = Telemetry()
    for error in (None, ValueError("no such node"), StoreUnavailable("away")):
        telemetry.store_took("templates", 0.001, error, now=NOW)
    calls = telemetry.store_calls(now=NOW)
    assert (calls.calls, calls.errors) == (3, 1)


def test_a_trouble_of_the_store_is_logged_whole_and_not_once_per_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    telemetry = Telemetry()
    for second in range(21):
        for why in ("its disk is full", "it takes no writes"):
            error = StoreUnavailable(f"cannot use the store at db.internal: {why}", why=why)
            telemetry.store_took("templates", 0.001, error, now=NOW + second)
    words = [record.error for record in caplog.records]  # type: ignore[attr-defined]
    assert (
        words
        == [
            "cannot use the store at db.internal: its disk is full",
            "cannot use the store at db.internal: it takes no writes",
        ]
        * 3
    )
