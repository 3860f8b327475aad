"""Plan a pool: how many nodes to make, to keep, to retire, and to evict for another request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from muster.domain.matching import Demand, reuse_allows, suits
from muster.domain.node import Node
from muster.domain.template import Template, TemplateSpec

NO_OWNER = ""
"""No owner's name."""

RENEWED_BEFORE = 90.0
"""Seconds before its deadline that a node of the minimum is renewed, or sooner: longer than it takes until
another replica keeps the pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlan:
    refill: int
    """Warm nodes to make now."""
    renew: tuple[Node, ...]
    """Idle nodes that hold the minimum: their deadline is moved before it passes."""
    retire: tuple[Node, ...]
    """Idle nodes of an old revision whose time has come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Warm:
    """A template's idle nodes that aren't draining, sorted once for several questions."""

    current: Sequence[Node]
    """Those that count for the minimum."""
    old: tuple[Node, ...]
    """Those of old revisions."""

    @classmethod
    def of(cls, template: Template, idle: Sequence[Node]) -> "Warm":
        spec, revision = template.spec, template.revision
        current = [node for node in idle if node.revision >= revision and _free_for_all(node, spec)]
        return cls(current=current, old=tuple([node for node in idle if node.revision < revision]))


def plan(template: Template, warm: Warm, *, room: int, leaving: int, refilling: bool, now: float) -> PoolPlan:
    """Plan a pool. `room`: what the caps leave. `leaving`: the template's terminating nodes, whose room comes
    back.

    Old nodes are retired once their replacement is idle, or one at a time before it when there is no room. So
    a change of the template never empties the pool.
    """
    settled = plan_full(template, warm, now=now)
    if settled is not None:
        return settled
    spec, current, old = template.spec, warm.current, warm.old
    affordable = 0 if refilling else min(spec.min_idle - len(current), max(room, 0))
    stuck = room <= 0 and not refilling and not leaving
    surplus = max(0, len(old) + len(current) - spec.min_idle)
    return PoolPlan(
        refill=affordable, renew=_renew(current, spec, now), retire=old[: max(surplus, int(stuck))]
    )


def plan_full(template: Template, warm: Warm, *, now: float) -> PoolPlan | None:
    """Plan a pool that has its minimum. None: it lacks some, so its plan depends on room and refills."""
    if len(warm.current) < template.spec.min_idle:
        return None
    return PoolPlan(refill=0, renew=_renew(warm.current, template.spec, now), retire=warm.old)


def settled_until(template: Template, warm: Warm) -> float:
    """Return the time before which the plan of these nodes is empty; 0.0 if it may not be empty now."""
    spec = template.spec
    if warm.old or len(warm.current) < spec.min_idle:
        return 0.0
    return min((_renewed_from(node, spec) for node in warm.current[: spec.min_idle]), default=inf)


def _renew(current: Sequence[Node], spec: TemplateSpec, now: float) -> tuple[Node, ...]:
    return tuple(node for node in current[: spec.min_idle] if now >= _renewed_from(node, spec))


def _free_for_all(node: Node, spec: TemplateSpec) -> bool:
    """Return whether any new caller can get the node: only such nodes count for the pool's minimum.

    Nodes of a special request, or of one owner, don't count.
    """
    return (
        node.resource_class == spec.resource_class
        and node.usage_class in spec.usage
        and reuse_allows(spec.reuse, node.last_owner, NO_OWNER)
    )


def _renewed_from(node: Node, spec: TemplateSpec) -> float:
    if node.deadline_at is None:
        return inf
    return node.deadline_at - min(spec.idle_timeout / 2, max(RENEWED_BEFORE, spec.idle_timeout / 4))


def evictable(
    idle: Sequence[Node], demand: Demand, templates: Mapping[str, Template], *, everywhere: bool
) -> list[Node]:
    """Return idle nodes that can't serve the demand and use its room, least valuable first.

    Inside the template: all that don't suit. With `everywhere` (the cap over all templates is short) also
    other templates' nodes, except those that hold their minimum.
    """
    own = [node for node in idle if node.template == demand.template and not suits(node, demand)]
    if not everywhere:
        return own
    others: list[Node] = []
    spare = {name: -template.spec.min_idle for name, template in templates.items()}
    for node in idle:
        if node.template == demand.template:
            continue
        template = templates.get(node.template)
        if template is None or node.revision < template.revision or not _free_for_all(node, template.spec):
            others.append(node)
            continue
        spare[node.template] += 1
        if spare[node.template] > 0:
            others.append(node)
    return own + others
