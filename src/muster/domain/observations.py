"""What the verdict is judged from: calls, ticks of duties, and what waits, failed, lingers or is paused."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from muster.domain.failures import Failure, Group
from muster.domain.findings import Culprit
from muster.domain.health import Health
from muster.domain.job_figures import SourceCounts, UnservedGroup
from muster.domain.node import Node
from muster.domain.operation import Operation
from muster.domain.reasons import Reason
from muster.domain.undelivered import Backlog
from muster.domain.wait_reasons import Waiting

LATE_TICKS = 3
LATE_LEAST = 30.0
"""A duty is late after so many of its intervals, and this much on top: one slow tick is none."""
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """How the calls of the last `window` seconds went. Durations are upper bounds, in seconds."""

    window: float
    calls: int = 0
    errors: int = 0
    throttled: int = 0
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    last_error: str = ""

    @property
    def error_rate(self) -> float | None:
        return self.errors / self.calls if self.calls else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """A service that this replica calls."""

    name: str
    calls: Calls
    culprit: Culprit = Culprit.CLOUD
    """Where the cause is when its calls fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DutyObservation:
    name: str
    every: float
    ticked_at: float | None
    late: bool
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Starved:
    """A template whose nodes this server can't make, although it should keep some warm."""

    template: str
    wanted: int
    has: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSign:
    """A cluster that failed, or whose work has failed and is being undone."""

    name: str
    operation_id: str
    reason: Reason | None
    detail: str
    since: float
    left: bool
    """The cluster failed, and its remains stay until an operator deletes them."""
    deleting: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    now: float
    store: Calls
    dependencies: Sequence[Dependency]
    duties: Sequence[DutyObservation]
    waiting: Sequence[Waiting]
    failures: Sequence[Group]
    """Of the last hour."""
    handed_over: Mapping[str, float]
    """When a template's nodes were last handed over; only known times."""
    health: Mapping[str, Mapping[Health, int]]
    """Of nodes that joined and stay, by template; only those with nodes."""
    stuck: Sequence[Node]
    """Longest first."""
    orphans: Sequence[Node]
    paused: Sequence[str | None]
    starved: Sequence[Starved] = ()
    clusters: Sequence[ClusterSign] = ()
    local: Collection[str] = ()
    """Templates whose nodes are on the server's own machine."""
    internal: Sequence[Failure] = ()
    """Operations that an internal error ended in the last hour, newest first."""
    unserved: Sequence[UnservedGroup] = ()
    """What holds queued jobs back."""
    job_sources: Sequence[SourceCounts] = ()
    stuck_operations: Sequence[Operation] = ()
    """Open ones that unforeseen errors keep from advancing, or that outlive their deadline."""
    undelivered: Sequence[Backlog] = ()
    """Of each webhook that has messages which were not delivered."""


def in_all(health: Mapping[str, Mapping[Health, int]]) -> dict[Health, int]:
    """Return how many nodes have each health, over all templates; zeros too."""
    return {each: sum(counts.get(each, 0) for counts in health.values()) for each in Health}


def late(ticked_at: float | None, *, every: float, since: float, now: float) -> bool:
    """Return whether a duty is late. `since`: when this replica began to judge; earlier ticks aren't
    expected."""
    return now - max(ticked_at or 0.0, since) > LATE_TICKS * every + LATE_LEAST


def aged(seconds: float) -> str:
    """Return a duration in words, short enough for a sentence."""
    if seconds < MINUTE:
        return f"{max(seconds, 0.0):.0f} s"
    if seconds < HOUR:
        return f"{seconds / MINUTE:.0f} min"
    return f"{seconds / HOUR:.0f} h" if seconds < 2 * DAY else f"{seconds / DAY:.0f} d"
