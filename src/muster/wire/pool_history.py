"""How the pools were used over the last hours, and how long runs waited for their nodes."""

from collections.abc import Sequence
from typing import Annotated, Self

from msgspec import Meta

from muster.domain.overview import Handover
from muster.domain.pool_history import Point
from muster.wire.base import EXAMPLE_TIME, Query, Shape, Time, at

HOURS_MOST = 24
READY_MOST = 200
"""Hand-overs of one template that a history lists."""


class PoolPoint(Shape):
    EXAMPLE = {
        "at": EXAMPLE_TIME,
        "booting": 1,
        "idle": 2,
        "running": 3,
        "other": 0,
        "min_idle": 2,
        "max_nodes": 20,
    }

    at: Time
    booting: int
    idle: int
    running: int
    other: int
    """Claimed, releasing, failed or terminating."""
    min_idle: int
    max_nodes: int

    @classmethod
    def of(cls, point: Point) -> Self:
        count = point.count
        return cls(
            at=at(point.at),
            booting=count.booting,
            idle=count.idle,
            running=count.running,
            other=count.other,
            min_idle=count.min_idle,
            max_nodes=count.max_nodes,
        )


class ReadyPoint(Shape):
    """A provision that got its nodes."""

    EXAMPLE = {"at": EXAMPLE_TIME, "seconds": 2.4, "nodes": 3, "warm": 2}

    at: Time
    seconds: float
    """From the request until all nodes were ready."""
    nodes: int
    warm: int
    """How many of them came from the pool."""


class TemplateHistory(Shape):
    EXAMPLE = {
        "template": "ci",
        "points": [PoolPoint.EXAMPLE],
        "ready": [ReadyPoint.EXAMPLE],
        "boots": 57,
        "boot_p50": 44.0,
        "failed": 1,
    }

    template: str
    points: tuple[PoolPoint, ...]
    """Oldest first. A time without a sample has no point: no server was up."""
    ready: tuple[ReadyPoint, ...] = ()
    """Newest first."""
    boots: int = 0
    """Boots of the present revision in this time, as far as they are remembered."""
    boot_p50: float | None = None
    failed: int = 0
    """Nodes that failed in this time."""

    @classmethod
    def ready_of(cls, handovers: Sequence[Handover]) -> tuple[ReadyPoint, ...]:
        return tuple(
            ReadyPoint(at=at(each.at), seconds=round(each.seconds, 3), nodes=each.nodes, warm=each.warm)
            for each in handovers[:READY_MOST]
        )


class PoolHistory(Shape):
    EXAMPLE = {
        "since": EXAMPLE_TIME,
        "until": "2026-05-05T09:30:00Z",
        "step_seconds": 300.0,
        "items": [TemplateHistory.EXAMPLE],
    }

    since: Time
    """The first sample of the hours that were asked for."""
    until: Time
    step_seconds: float
    """Seconds between two points; a point shows the busiest minute of its time."""
    items: tuple[TemplateHistory, ...]
    """By name: every template that had or kept nodes, or that is in use now."""


class PoolHistoryQuery(Query):
    hours: Annotated[int, Meta(ge=1, le=HOURS_MOST)] = HOURS_MOST
    template: str | None = None
