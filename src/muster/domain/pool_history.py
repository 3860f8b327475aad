"""Samples of the pools, one a minute for a day, and the lines that a chart draws of them.

A sample leaves out templates that have and keep nothing: an absent template had no nodes then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from muster.domain.lifecycle import NodeState
from muster.domain.template import Template

EVERY = 60.0
"""Seconds between two samples."""
KEPT = 25 * 3600.0
"""Seconds for which a sample is kept: a day, and an hour for clocks and zones."""
TEMPLATES_MOST = 500
"""Templates in one sample. Beyond that, those with the fewest nodes are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolCount:
    """What the nodes of one template did at one time."""

    template: str
    booting: int = 0
    idle: int = 0
    running: int = 0
    other: int = 0
    """Claimed, releasing, failed or terminating."""
    min_idle: int = 0
    max_nodes: int = 0

    @property
    def total(self) -> int:
        return self.booting + self.idle + self.running + self.other


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSample:
    at: float
    """The minute that it stands for."""
    pools: tuple[PoolCount, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    at: float
    count: PoolCount


def sampled(
    census: Mapping[str, Mapping[NodeState, int]], templates: Sequence[Template], *, now: float
) -> PoolSample:
    """Return the sample of this minute."""
    pools = [_counted(template, census.get(template.name, {})) for template in templates]
    shown = [pool for pool in pools if pool.total or pool.min_idle]
    shown.sort(key=lambda pool: (-pool.total, pool.template))
    kept = sorted(shown[:TEMPLATES_MOST], key=lambda pool: pool.template)
    return PoolSample(at=now // EVERY * EVERY, pools=tuple(kept))


def _counted(template: Template, counts: Mapping[NodeState, int]) -> PoolCount:
    booting, idle, running = (
        counts.get(state, 0) for state in (NodeState.CREATED, NodeState.IDLE, NodeState.RUNNING)
    )
    return PoolCount(
        template=template.name,
        booting=booting,
        idle=idle,
        running=running,
        other=sum(counts.values()) - booting - idle - running,
        min_idle=template.spec.min_idle,
        max_nodes=template.spec.max_nodes,
    )


def lines(samples: Sequence[PoolSample], *, since: float, step: float) -> Mapping[str, Sequence[Point]]:
    """Return a line of points for each template, by name; one point per step that has a sample.

    A point shows the busiest sample of its step, so that a short peak stays visible. A step without any
    sample has no point: the server was away, and the chart shows a gap.
    """
    names = sorted({pool.template for sample in samples for pool in sample.pools})
    found: dict[str, dict[float, PoolCount]] = {name: {} for name in names}
    empty = {name: PoolCount(template=name) for name in names}
    for sample in samples:
        at = since + (sample.at - since) // step * step
        present = {pool.template: pool for pool in sample.pools}
        for name in names:
            count = present.get(name) or empty[name]
            empty[name] = _without_nodes(count)
            before = found[name].get(at)
            if before is None or count.total >= before.total:
                found[name][at] = count
    return {name: [Point(at=at, count=each) for at, each in line.items()] for name, line in found.items()}


def _without_nodes(count: PoolCount) -> PoolCount:
    """Return the count of a pool whose nodes are gone: its bounds are as they were last."""
    return PoolCount(template=count.template, min_idle=count.min_idle, max_nodes=count.max_nodes)
