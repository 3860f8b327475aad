"""Who has nodes right now, until when, and which of them feel unwell: what a hand on a brake wants to see."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from muster.domain.health import Health, Vitals
from muster.domain.ids import NodeId, OperationId
from muster.domain.node import Node

SHOWN = 20
NODES_SHOWN = 8
_WORST_FIRST = (Health.OFFLINE, Health.DEGRADED, Health.STARTING, Health.READY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    node_id: NodeId
    health: Health | None
    health_reason: str
    drain: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """One run and its nodes; apps, which enrol themselves and belong to no run, are one per template."""

    operation_id: OperationId | None
    """The provision that handed them over."""
    run: str | None
    template: str
    since: float
    deadline_at: float | None
    """When the first of them must be given back."""
    count: int
    unwell: int
    nodes: tuple[Held, ...]
    """A few, the unwell first."""


def holdings(nodes: Sequence[Node], vitals: Mapping[NodeId, Vitals]) -> tuple[Holding, ...]:
    """Return who holds running nodes. Runs with an unhealthy node come first, then those that end first."""
    members: dict[str, list[Node]] = {}
    for node in nodes:
        members.setdefault(node.operation_id or f"template {node.template}", []).append(node)
    found = [_holding(some, vitals) for some in members.values()]
    return tuple(sorted(found, key=_urgency))


def _urgency(each: Holding) -> tuple[bool, float, float, str]:
    ends = float("inf") if each.deadline_at is None else each.deadline_at
    return (each.unwell == 0, ends, each.since, each.operation_id or each.template)


def _holding(nodes: Sequence[Node], vitals: Mapping[NodeId, Vitals]) -> Holding:
    held = sorted((_held(node, vitals.get(node.id)) for node in nodes), key=_badness)
    deadlines = [node.deadline_at for node in nodes if node.deadline_at is not None]
    first = nodes[0]
    return Holding(
        operation_id=first.operation_id,
        run=first.run,
        template=first.template,
        since=min(node.entered_at for node in nodes),
        deadline_at=min(deadlines, default=None),
        count=len(nodes),
        unwell=sum(each.health in (Health.OFFLINE, Health.DEGRADED) for each in held),
        nodes=tuple(held[:NODES_SHOWN]),
    )


def _held(node: Node, vitals: Vitals | None) -> Held:
    return Held(
        node_id=node.id,
        health=None if vitals is None else vitals.health,
        health_reason="" if vitals is None else vitals.health_reason,
        drain=node.drain,
    )


def _badness(each: Held) -> tuple[int, str]:
    place = len(_WORST_FIRST) if each.health is None else _WORST_FIRST.index(each.health)
    return place, each.node_id
