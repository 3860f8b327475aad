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


def plan(
    template: Template, idle: Sequence[Node], *, room: int, leaving: int, refilling: bool, now: float
) -> PoolPlan:
    """Plan a pool. `idle`: the template's idle nodes that aren't draining. `room`: what the caps leave.
    `leaving`: its terminating nodes, whose room comes back.

    Old nodes are retired once their replacement is idle, or one at a time before it when there is no room. So
    a change of the template never empties the pool.
    """
    spec = template.spec
    current, old = _by_revision(template, idle)
    if len(current) >= spec.min_idle:
        return _full(spec, current, old, now)
    affordable = 0 if refilling else min(spec.min_idle - len(current), max(room, 0))
    stuck = room <= 0 and not refilling and not leaving
    surplus = max(0, len(old) + len(current) - spec.min_idle)
    return PoolPlan(
        refill=affordable, renew=_renew(current, spec, now), retire=old[: max(surplus, int(stuck))]
    )


def plan_full(template: Template, idle: Sequence[Node], *, now: float) -> PoolPlan | None:
    """Plan a pool that has its minimum. None: it lacks some, so its plan depends on room and refills."""
    current, old = _by_revision(template, idle)
    return None if len(current) < template.spec.min_idle else _full(template.spec, current, old, now)


def _full(spec: TemplateSpec, current: Sequence[Node], old: tuple[Node, ...], now: float) -> PoolPlan:
    return PoolPlan(refill=0, renew=_renew(current, spec, now), retire=old)


def settled_until(template: Template, idle: Sequence[Node]) -> float:
    """Return the time before which the plan of these nodes is empty; 0.0 if it may not be empty now."""
    current, old = _by_revision(template, idle)
    spec = template.spec
    if old or len(current) < spec.min_idle:
        return 0.0
    return min((_renewed_from(node, spec) for node in current[: spec.min_idle]), default=inf)


def _by_revision(template: Template, idle: Sequence[Node]) -> tuple[list[Node], tuple[Node, ...]]:
    """Return the nodes that count for the minimum, and those of old revisions."""
    spec, revision = template.spec, template.revision
    current = [node for node in idle if node.revision >= revision and _free_for_all(node, spec)]
    return current, tuple([node for node in idle if node.revision < revision])


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
