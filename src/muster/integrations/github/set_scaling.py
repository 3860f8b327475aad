"""Decide how many runners a scale set needs: GitHub's counts and our runners in, acts out. Pure.

The target follows the statistics of the whole set, never a count of messages: those repeat, come late and
hold at most 50 jobs. A busy runner is never in the way. A runner is removed by its registration first, so
GitHub has the last word on whether it is idle.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from muster.domain.ids import OperationId

CLEANED_WITHIN = 10.0
"""Seconds for which a machine that is being cleaned is waited for, before another one is asked for."""
UNFINISHED_MOST = 200
"""Provisions of one set that are under way at once. The others are asked for as these end."""


class Stage(StrEnum):
    QUEUED = "queued"
    """Its provision waits for room and holds nothing."""
    STARTING = "starting"
    SERVING = "serving"
    """It was handed over: its runner is or was online."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRunnerState:
    operation_id: OperationId
    number: int
    stage: Stage
    since: float
    """When it was handed over; before that, when it was asked for."""
    name: str = ""
    """At GitHub. Empty: it has no node yet."""
    busy: bool = False
    """GitHub said that it has a job. False: it is idle, or that is not known."""
    spent: bool = False
    """Its one job ended. Its node is about to be given back."""
    ended_at: float | None = None
    """When its node began to be cleaned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What GitHub says of the set."""

    assigned: int = 0
    """Jobs that wait for a runner of the set, and those that run."""
    running: int = 0
    waiting_since: float | None = None
    """Since when some of them wait without a break."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    most: int
    min_idle: int
    idle_timeout: float
    """Seconds after which a runner that got no job is removed, if it is not needed."""
    age_most: float
    """Seconds after which an idle runner is replaced: a job that starts later would have too little time."""
    reuses: bool
    """Whether machines serve again after their job."""
    warm: int
    """Idle machines of the template."""
    allowed: int
    """Runners that may be asked for now: the limit on registrations, and the pause after failures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    target: int
    missing: int
    ask: int
    """Runners to ask for now; fewer than `missing` if something bounds them."""
    cancel: tuple[SetRunnerState, ...] = ()
    """Provisions that hold nothing and are not needed any more."""
    retire: tuple[SetRunnerState, ...] = ()
    """Runners to remove, each unless GitHub says that it is busy."""


def plan(demand: Demand, runners: Sequence[SetRunnerState], bounds: Bounds, *, now: float) -> Plan:
    live = [each for each in runners if not each.spent and each.ended_at is None]
    target = min(bounds.most, bounds.min_idle + demand.assigned)
    missing, surplus = max(0, target - len(live)), max(0, len(live) - target)
    returning = sum(_returns(each, bounds, now=now) for each in runners)
    # A machine that is being cleaned is worth a moment, but not while others are idle.
    wanted = max(missing - returning, min(missing, bounds.warm))
    unfinished = sum(each.stage is not Stage.SERVING for each in live)
    queued = sorted((each for each in live if each.stage is Stage.QUEUED), key=lambda each: -each.number)
    cancel = tuple(queued[:surplus])
    return Plan(
        target=target,
        missing=missing,
        ask=max(0, min(wanted, bounds.allowed, UNFINISHED_MOST - unfinished)),
        cancel=cancel,
        retire=_retired(demand, live, bounds, surplus=surplus - len(cancel), now=now),
    )


def _returns(runner: SetRunnerState, bounds: Bounds, *, now: float) -> bool:
    """Return whether the runner's machine is about to be idle: a new one would come later than that."""
    if not bounds.reuses:
        return False
    since = now if runner.spent and runner.ended_at is None else runner.ended_at
    return since is not None and now - since < CLEANED_WITHIN


def _retired(
    demand: Demand, live: Sequence[SetRunnerState], bounds: Bounds, *, surplus: int, now: float
) -> tuple[SetRunnerState, ...]:
    """Return idle runners that are not needed, never get a job although jobs wait, or are too old."""
    idle = [each for each in live if each.stage is Stage.SERVING and not each.busy and each.name]
    idle.sort(key=lambda each: (each.since, each.number))
    unneeded = [each for each in idle if now - each.since >= bounds.idle_timeout][:surplus]
    waiting = demand.waiting_since
    found = {each.operation_id: each for each in unneeded}
    for each in idle:
        passed_over = waiting is not None and now - max(each.since, waiting) >= bounds.idle_timeout
        if passed_over or now - each.since >= bounds.age_most:
            found[each.operation_id] = each
    return tuple(found.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What caps and pauses leave for a set."""

    cap: int
    used: int
    """Of the template: machines, and what open launches hold."""
    total_cap: int
    total_used: int
    others: int
    """Machines of the template that no runner of the set can have now."""
    ours: int
    """Runners of the set that have or get a machine."""
    new_most: int | None = None
    """Runners beyond ours that may be started: 0 while paused, 1 after failures. None: no such bound."""


def capacity(room: Room, most: int) -> int:
    """Return how many runners the set can have in all, as GitHub is told with every poll."""
    free = min(room.cap - room.used, room.total_cap - room.total_used)
    found = min(most, free + room.used - room.others)
    return max(0, found if room.new_most is None else min(found, room.ours + room.new_most))
