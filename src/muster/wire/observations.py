"""What the verdict rests on: duties, the store, and the services that this replica calls."""

from typing import Self

from muster.domain import observations as domain
from muster.domain.progress import Tone
from muster.domain.verdicts import tone_of, tone_of_store
from muster.wire.base import Shape, Time, convert


class Duty(Shape):
    name: str
    every_seconds: float
    last_tick_at: Time | None = None
    late: bool
    problem: str = ""

    @classmethod
    def of(cls, duty: domain.DutyObservation) -> Self:
        return convert(cls, duty, every_seconds=duty.every, last_tick_at=duty.ticked_at)


class StoreCalls(Shape):
    """Durations are upper bounds: no call of that share took longer."""

    tone: Tone
    """As the verdict judges it; pending: too few calls to say."""
    window_seconds: float
    calls: int
    errors: int
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None

    @classmethod
    def of(cls, calls: domain.Calls) -> Self:
        return convert(
            cls,
            calls,
            tone=tone_of_store(calls),
            window_seconds=calls.window,
            p50_ms=_milliseconds(calls.p50),
            p95_ms=_milliseconds(calls.p95),
            p99_ms=_milliseconds(calls.p99),
        )


class Dependency(Shape):
    name: str
    kind: str
    """Where the cause is when its calls fail: cloud, machine or runtime."""
    tone: Tone
    """As the verdict judges it; pending: too few calls to say."""
    window_seconds: float
    calls: int
    errors: int
    throttled: int
    error_rate: float | None = None
    p95_ms: float | None = None
    last_error: str = ""

    @classmethod
    def of(cls, found: domain.Dependency) -> Self:
        calls = found.calls
        return convert(
            cls,
            calls,
            name=found.name,
            kind=str(found.culprit),
            tone=tone_of(calls),
            window_seconds=calls.window,
            error_rate=None if calls.error_rate is None else round(calls.error_rate, 4),
            p95_ms=_milliseconds(calls.p95),
        )


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
