"""Describe a boot by its marks, and learn from the last boots of a template.

Learning only ever lengthens a deadline. A few far outliers don't move it. Failed boots, and boots with a gap
in the watch, never count. A rescued boot counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median, quantiles

from muster.domain.ids import NodeId

LEAST_BOOTS = 20
"""Fewer say too little about a long tail."""
LEAST_FOR_ETA = 3
"""A rough guess of the middle needs fewer than one of the tail."""
KEPT_BOOTS = 100
"""Of each (template revision, instance type): old ones tell of yesterday's mirrors and images."""
MARKS_MOST = 200
"""Of one boot: a script that names steps in a loop must not fill the store."""
MARGIN = 1.5


class Phase(StrEnum):
    """What the control plane itself knows of; an agent may name others."""

    JOINED = "joined"
    BOOT_SCRIPT = "boot_script"
    BOOTED = "booted"
    GIVEN_UP = "given_up"
    """It was failed or condemned before it came up. What follows is the time until it did all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The boot came to a phase, or to a named step of one."""

    at: float
    phase: str
    step: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    name: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """One boot that came to its end."""

    node_id: NodeId
    template: str
    revision: int
    instance_type: str
    booted_at: float
    seconds: float
    phases: tuple[Span, ...]
    """From each mark to the next, in order; the first is what it took until the machine joined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What the last boots say. `seconds` is what a deadline may be lengthened to."""

    seconds: float
    basis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    count: int
    p50: float
    p95: float
    p99: float
    longest: float


def given_up_at(marks: Sequence[Mark]) -> float | None:
    return next((mark.at for mark in marks if mark.phase == Phase.GIVEN_UP), None)


def spans(created_at: float, marks: Sequence[Mark], until: float) -> tuple[Span, ...]:
    """Return where the time went: from the machine's record to `until`, one span per mark."""
    names = ["launch", *(_name(mark) for mark in marks)]
    times = [created_at, *(mark.at for mark in marks), until]
    found = [
        Span(name=name, seconds=max(0.0, end - start))
        for name, start, end in zip(names, times, times[1:], strict=False)
    ]
    return tuple(span for span in found if span.name != Phase.BOOTED and not _ended(span))


def _ended(span: Span) -> bool:
    """Return whether the boot was given up in this span."""
    return span.name == Phase.GIVEN_UP and span.seconds == 0


def _name(mark: Mark) -> str:
    return f"{mark.phase}: {mark.step}" if mark.step else mark.phase


def distribution(seconds: Sequence[float]) -> Distribution | None:
    if not seconds:
        return None
    return Distribution(
        count=len(seconds),
        p50=median(seconds),
        p95=_percentile(seconds, 95),
        p99=_percentile(seconds, 99),
        longest=max(seconds),
    )


def learn(boots: Sequence[Boot], *, ceiling: float) -> Learned | None:
    """Return what the tail of these boots needs, up to the ceiling; None: too few boots."""
    if len(boots) < LEAST_BOOTS:
        return None
    kept = without_outliers([boot.seconds for boot in boots])
    wanted = _percentile(kept, 99) * MARGIN
    basis = f"p99 of {len(kept)} boots" + ("" if wanted <= ceiling else ", up to max_provision_timeout")
    return Learned(seconds=min(wanted, ceiling), basis=basis)


def expected(boots: Sequence[Boot]) -> float | None:
    """Return how long a boot usually takes; None if too few are known."""
    if len(boots) < LEAST_FOR_ETA:
        return None
    return median(boot.seconds for boot in boots)


def typical(boots: Sequence[Boot]) -> tuple[Span, ...]:
    """Return the median of each phase, named and ordered as in the first of the boots."""
    if not boots:
        return ()
    found = {
        span.name: [each.seconds for boot in boots for each in boot.phases if each.name == span.name]
        for span in boots[0].phases
        if span.name != Phase.GIVEN_UP
    }
    return tuple(Span(name=name, seconds=median(seconds)) for name, seconds in found.items())


def by_type(boots: Sequence[Boot]) -> Mapping[str, tuple[Boot, ...]]:
    grouped: dict[str, list[Boot]] = {}
    for boot in boots:
        grouped.setdefault(boot.instance_type, []).append(boot)
    return {name: tuple(some) for name, some in grouped.items()}


def without_outliers(seconds: Sequence[float]) -> list[float]:
    """Drop far outliers if they are one in twenty at most, or just one: more of them are no accident."""
    ordered = sorted(seconds)
    quarter, _, three_quarters = quantiles(ordered, n=4, method="inclusive")
    spread = max(three_quarters - quarter, median(ordered) / 10)
    fence = three_quarters + 3 * spread
    far = sum(1 for each in ordered if each > fence)
    return ordered[: len(ordered) - far] if far <= max(1, len(ordered) // 20) else ordered


def _percentile(seconds: Sequence[float], percent: int) -> float:
    """Return a percentile by rank: a value that was really measured."""
    ordered = sorted(seconds)
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(rank, 1) - 1]
