"""How often nodes beat: more slowly the more nodes there are, so that a replica takes in a bounded rate.

Owns the interval that nodes are told, and how long a silence must last before it means something. The
interval is stored beside the watch, so that all replicas tell and judge by the same one.
"""

from dataclasses import dataclass, replace
from math import ceil

BEATS_MISSED = 3
"""Beats in a row that must be missing before silence counts."""
FLUSHED_WITHIN = 1.0
"""Seconds for which a replica gathers beats before it writes them."""
INTERVAL_MOST = 60.0
"""Seconds between two beats at the most: the server keeps a silent connection for longer."""
HEARD_WITHIN = 60.0
"""Seconds in which every node hears of a shorter interval. Its stream says it at least every 25 s."""
MARGIN = 0.9
"""An interval becomes shorter only when this share of the rate suffices: a few nodes change nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    beat_seconds: float
    """The interval that nodes are told now."""
    longest: float
    """The longest interval that some node may still use, because it was told so before."""
    longest_until: float = 0.0
    """When every node has heard of the present interval."""

    @classmethod
    def of(cls, beat_seconds: float) -> "Pace":
        return cls(beat_seconds=beat_seconds, longest=beat_seconds)

    def changed(self, beat_seconds: float, *, now: float) -> "Pace":
        """Return the pace from now on. A longer interval counts at once, a shorter one once all nodes keep
        it.

        So no node is called silent for an interval that it was told.
        """
        if beat_seconds == self.beat_seconds:
            return self
        longest = max(beat_seconds, self.in_use(now))
        return Pace(beat_seconds=beat_seconds, longest=longest, longest_until=now + HEARD_WITHIN + longest)

    def heard_by(self, now: float) -> "Pace":
        """Return the pace after a clock was set back: every node hears of it within the usual time."""
        return replace(self, longest_until=min(self.longest_until, now + HEARD_WITHIN + self.longest))

    def in_use(self, now: float) -> float:
        """Return the longest interval that any node may use now."""
        return self.longest if now < self.longest_until else self.beat_seconds


def interval(nodes: int, *, least: float, rate: float, present: float | None = None) -> float:
    """Return the seconds between two beats of a node, so that all together send at most `rate` a second.

    A multiple of `least`. `present`: the interval that nodes are told now.
    """
    wanted = _steps(nodes, least=least, rate=rate)
    if present is not None and wanted < present:
        return min(present, _steps(nodes, least=least, rate=MARGIN * rate))
    return wanted


def _steps(nodes: int, *, least: float, rate: float) -> float:
    return min(max(least, INTERVAL_MOST), least * max(1, ceil(nodes / rate / least)))


def stale_after(beat_seconds: float) -> float:
    """Return the shortest silence that may mean something if a node beats so often."""
    return FLUSHED_WITHIN + BEATS_MISSED * beat_seconds
