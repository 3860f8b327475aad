"""Record the ground truth: when machines moved and were heard, and when no replica was there to hear them.

Promises about time are measured by it. The simulated machines, the network and the replicas write it; no
replica reads it. Where the truth can't be known from outside, it says less, never more.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from muster.domain.deadlines import Limits

SIMULATED = Limits(max_transition=60.0, lost_after=150.0, extension=30.0)
"""The limits of every simulated installation.

They are shorter than the defaults that would hardly ever apply within a quarter of an hour.
"""
SETTLING = 75.0
"""After a crash or a pause, this long isn't calm: a lease must lapse before another replica can take over."""
GAP = 10.0
"""Beats that follow each other within this are one stretch of life: one may be lost."""
DATED = 3.0
"""A beat is dated up to so much earlier than it came."""


@dataclass(slots=True, kw_only=True)
class Truth:
    """One machine."""

    moved_at: float | None = None
    """When its boot last did something."""
    booted: bool = False
    """Its boot has ended, and well."""
    reached_at: float = 0.0
    """When a replica last worked on a message sent in its name, however late, by any sender."""
    beat_at: float = 0.0
    """Its last beat that is in the store for sure."""
    advance_at: float = 0.0
    """The last such beat that showed an advance."""
    beating_since: float | None = None
    """Since when such beats have come without a gap."""

    def beat(self, at: float, *, advanced: bool) -> None:
        """A beat of that time is in the store, beyond doubt."""
        beaten((self,), at)
        if advanced:
            self.advance_at = at


def beaten(truths: Iterable[Truth], at: float) -> None:
    """Beats of these machines, of that time, are in the store beyond doubt."""
    for truth in truths:
        if truth.beating_since is None or at - truth.beat_at > GAP:
            truth.beating_since = at
        truth.beat_at = at


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """Time in which no replica ran and reached the store, long enough to be noticed."""

    began: float
    ended: float


@dataclass(slots=True, kw_only=True)
class Presence:
    """Whether a replica is there."""

    absence: Absence | None = None
    """The last one that is over."""
    away_since: float | None = None
    disturbed_at: float = 0.0
    shaken: dict[str, float] = field(default_factory=dict)
    """When something last happened to each replica, and to the store."""

    def note(self, now: float, *, there: bool, who: Sequence[str]) -> None:
        """Something happened to these."""
        self.disturbed_at = now
        for name in who:
            self.shaken[name] = now
        if not there:
            self.away_since = now if self.away_since is None else self.away_since
        elif self.away_since is not None:
            if now - self.away_since > SIMULATED.stale_after:
                self.absence = Absence(began=self.away_since, ended=now)
            self.away_since = None

    @property
    def calm_since(self) -> float:
        """Return the time before which nothing counts as late."""
        return self.disturbed_at + SETTLING

    def steady(self, since: float, *who: str) -> bool:
        """Whether nothing happened to these since then."""
        return all(self.shaken.get(name, 0.0) < since for name in who)
