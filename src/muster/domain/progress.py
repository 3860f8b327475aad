"""What a person sees while waiting. One shape for every kind of operation.

Owns two promises: steps never go back, and percent never decreases, whatever is published in which
order and by which replica.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

UNKNOWN_CAP = 0.95
"""Inside a step whose true share isn't known, time alone never fills more than this much of it."""
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
class Progress:
    step: int
    total_steps: int
    phase: str
    label: str
    message: str = ""
    percent: float = 0.0
    expected_at: float | None = None
    """When it should be done, from what was learned; None rather than a made-up time."""
    parts: tuple[Part, ...] = ()
    provider_since: float | None = None
    """Since when the provider works on it, if that is what it waits for."""
    link: str = ""
    """Where the provider's own console shows it."""


def percent(*, step: int, total_steps: int, fraction: float) -> float:
    """Where `fraction` (0 to 1) of a step stands in the whole, as 0 to 100."""
    inside = min(max(fraction, 0.0), 1.0)
    return round(100.0 * (step - 1 + inside) / total_steps, 2)


def guessed(*, elapsed: float, expected: float) -> float:
    """The share of a step known only by time: never the whole."""
    if expected <= 0:
        return 0.0
    return min(max(elapsed, 0.0) / expected, UNKNOWN_CAP)


def advanced(shown: Progress | None, new: Progress) -> Progress:
    """What may be shown next: `new`, except that nothing goes back."""
    if shown is None:
        return new
    if new.step < shown.step:
        kept = replace(shown, message=new.message, parts=new.parts)
        return replace(kept, percent=max(shown.percent, new.percent))
    return replace(new, percent=max(shown.percent, new.percent))
