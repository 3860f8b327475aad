"""What the verdict rests on, over the wire: duties, the store, and those whom this replica calls."""

from datetime import datetime
from typing import Self

from muster.api.models.base import Out, maybe_at
from muster.domain.progress import Tone
from muster.domain.signs import Calls, Dependency, DutySign
from muster.domain.verdicts import tone_of, tone_of_store


class DutyOut(Out):
    name: str
    every_seconds: float
    last_tick_at: datetime | None
    late: bool
    problem: str

    @classmethod
    def of(cls, duty: DutySign) -> Self:
        return cls(
            name=duty.name,
            every_seconds=duty.every,
            last_tick_at=maybe_at(duty.ticked_at),
            late=duty.late,
            problem=duty.problem,
        )


class CallsOut(Out):
    """Durations are upper bounds: no call of that share took longer."""

    tone: Tone
    """As the verdict judges it; pending: too few calls to say."""
    window_seconds: float
    calls: int
    errors: int
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None

    @classmethod
    def of(cls, calls: Calls) -> Self:
        return cls(
            tone=tone_of_store(calls),
            window_seconds=calls.window,
            calls=calls.calls,
            errors=calls.errors,
            p50_ms=_milliseconds(calls.p50),
            p95_ms=_milliseconds(calls.p95),
            p99_ms=_milliseconds(calls.p99),
        )


class DependencyOut(Out):
    name: str
    kind: str
    """cloud or github."""
    tone: Tone
    """As the verdict judges it; pending: too few calls to say."""
    window_seconds: float
    calls: int
    errors: int
    throttled: int
    error_rate: float | None
    p95_ms: float | None
    last_error: str

    @classmethod
    def of(cls, found: Dependency) -> Self:
        calls = found.calls
        return cls(
            name=found.name,
            kind="github" if found.github else "cloud",
            tone=tone_of(calls),
            window_seconds=calls.window,
            calls=calls.calls,
            errors=calls.errors,
            throttled=calls.throttled,
            error_rate=None if calls.error_rate is None else round(calls.error_rate, 4),
            p95_ms=_milliseconds(calls.p95),
            last_error=calls.last_error,
        )


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
