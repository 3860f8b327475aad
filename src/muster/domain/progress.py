"""What a person sees while waiting. One shape for every kind of operation.

Owns three promises. Steps never go back. Percent never decreases, whatever is published in which order and
by which replica. The bar moves in every second of a step that works, and never reaches the step's end by time
alone.

The formula of the bar (docs/progress.md) is `Motion.at`. Server, terminal and page use the same one.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

ON_TIME = 0.7
"""The share of its way that a bar has gone when the expected time is over; the rest takes for ever."""
LEAST_EXPECTED = 0.1
"""Seconds. Less than that is no expectation, and would round up to the whole."""
GROUP_ABOVE = 24
"""More nodes than this are shown as one chip per state instead of one per node."""


class Tone(StrEnum):
    PENDING = "pending"
    ACTIVE = "active"
    SUCCESS = "success"
    WARNING = "warning"
    DANGER = "danger"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    id: str
    name: str
    state: str
    tone: Tone
    detail: str = ""
    count: int = 1
    since: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Motion:
    """How the bar moves by time alone: from `low` towards `high`, which it never reaches."""

    low: float
    high: float
    since: float
    expected: float
    """Seconds that this usually takes."""

    def at(self, now: float) -> float:
        return self.low + max(0.0, self.high - self.low) * crept(now - self.since, self.expected)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    step: int
    total_steps: int
    phase: str
    label: str
    message: str = ""
    percent: float = 0.0
    """Where the bar stood when this was written."""
    motion: Motion | None = None
    """How it moves from there. None: it stands, because nothing works on it."""
    expected_at: float | None = None
    """When it should be done, from what was learned; None rather than a made-up time."""
    parts: tuple[Part, ...] = ()
    provider_since: float | None = None
    """Since when the provider works on it, if that is what it waits for."""
    link: str = ""
    """Where the provider's own console shows it."""


def percent(*, step: int, total_steps: int, fraction: float) -> float:
    """Return where `fraction` (0 to 1) of a step stands in the whole, as 0 to 100."""
    inside = min(max(fraction, 0.0), 1.0)
    return round(100.0 * (step - 1 + inside) / total_steps, 2)


def crept(elapsed: float, expected: float) -> float:
    """Return the share of a way that is known by time alone: from 0, always rising, always below 1.

    It rises evenly to ON_TIME while the expected time lasts. After that it slows down like a hyperbola,
    without a jump in its speed.
    """
    if elapsed <= 0 or expected <= 0:
        return 0.0
    late = elapsed / max(expected, LEAST_EXPECTED) - 1.0
    if late <= 0:
        return ON_TIME * (1.0 + late)
    left = 1.0 - ON_TIME
    return 1.0 - left / (1.0 + late * ON_TIME / left)


def percent_at(shown: Progress, now: float) -> float:
    """Return where the bar stands now."""
    return shown.percent if shown.motion is None else max(shown.percent, shown.motion.at(now))


def advanced(shown: Progress | None, new: Progress, *, now: float) -> Progress:
    """Return what may be shown next: `new`, except that nothing goes back.

    Of two motions inside one step, the one that is ahead goes on.
    """
    if shown is None:
        return replace(new, percent=percent_at(new, now))
    here, there = percent_at(shown, now), percent_at(new, now)
    if new.step < shown.step:
        return replace(shown, message=new.message, parts=new.parts, percent=max(here, new.percent))
    motion = new.motion
    if motion is not None and there <= here:
        continues = shown.motion is not None and shown.step == new.step
        motion = shown.motion if continues else replace(motion, low=here, since=now)
    return replace(new, percent=max(here, there), motion=motion)


def stopped(shown: Progress, *, now: float) -> Progress:
    """Return progress whose bar stands still: the work waits, was told to stop, or has ended."""
    return replace(shown, percent=percent_at(shown, now), motion=None)
