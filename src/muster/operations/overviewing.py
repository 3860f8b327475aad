"""Looks at everything once, in bounded reads, and lets the domain judge. Writes nothing, decides nothing.

Figures of nodes, operations and duties come from the store, so that every replica tells the same. How calls
go is known only to who makes them: those figures are this replica's own.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from muster.domain import signs
from muster.domain.changing import changes
from muster.domain.failures import Failure, grouped
from muster.domain.holding import holdings
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.overview import Counted, Failures, Leftovers, Overview, Pool, Pools, Runs
from muster.domain.reasons import Reason
from muster.domain.settings import Settings
from muster.domain.signs import DAY, HOUR, Calls, Dependency, DutySign, Signs, Starved
from muster.domain.verdicts import all_well, judge
from muster.domain.waiting import waiting
from muster.domain.warmth import Handover, warmth
from muster.operations.lacking import lack
from muster.operations.together import together
from muster.ports.bundle import Ports
from muster.ports.overview import Tick

OPERATIONS_MOST = 500
NODES_MOST = 500
FAILURES_MOST = 1000
HANDOVERS_MOST = 1000
CHANGES_MOST = 200


class Telemetry(Protocol):
    """How this replica's calls go."""

    def store_calls(self, *, now: float) -> Calls: ...

    def dependencies(self, *, now: float) -> tuple[Dependency, ...]: ...


class Overviewing:
    """`duties`: name and interval of each. `since`: when this replica began to look."""

    def __init__(
        self,
        ports: Ports,
        settings: Settings,
        telemetry: Telemetry,
        *,
        owner: str,
        duties: Sequence[tuple[str, float]],
        since: float,
    ) -> None:
        self._ports = ports
        self._attention = settings.limits.attention
        self._telemetry = telemetry
        self._owner = owner
        self._duties = duties
        self._since = since

    async def look(self) -> Overview:
        store, now = self._ports.overview, self._ports.clock.now()
        paused = await self._ports.access.pauses()
        open_now = await store.unfinished(limit=OPERATIONS_MOST)
        failed = await store.failures(since=now - DAY, limit=FAILURES_MOST)
        handed = await store.handovers(since=now - DAY, limit=HANDOVERS_MOST)
        ending = await store.terminating(limit=NODES_MOST)
        ticks = await store.ticks()
        health = await store.health()
        pools = await self.pools(paused)
        changed = changes(await store.changes(since=now - DAY, limit=CHANGES_MOST))
        waits = Counted(
            groups=waiting(open_now, paused=paused, now=now), more=len(open_now) == OPERATIONS_MOST
        )
        failed_hour = _failures(failed, since=now - HOUR)
        stuck = tuple(node for node in ending if node.entered_at < now - self._attention)
        orphans = tuple(node for node in ending if node.reason is Reason.ORPHAN)
        seen = Signs(
            now=now,
            store=self._telemetry.store_calls(now=now),
            dependencies=self._telemetry.dependencies(now=now),
            duties=self._judged(ticks, now),
            waiting=waits.groups,
            failures=failed_hour.groups,
            handed_over=_last_handed(handed),
            health=health,
            stuck=stuck,
            orphans=orphans,
            paused=paused,
            starved=self._starved(pools),
        )
        found = judge(seen)
        return Overview(
            at=now,
            replica=self._owner,
            verdict=found[0] if found else all_well(seen),
            findings=found,
            waiting=waits,
            runs=await self._runs(),
            failed_hour=failed_hour,
            failed_day=_failures(failed, since=now - DAY),
            leftovers=Leftovers(terminating=_terminating(pools, ending), stuck=stuck, orphans=orphans),
            changes=changed,
            warm_hour=warmth([each for each in handed if each.at >= now - HOUR]),
            warm_day=warmth(handed),
            warm_more=len(handed) == HANDOVERS_MOST,
            pools=pools,
            health=signs.in_all(health),
            paused=paused,
            duties=tuple(seen.duties),
            dependencies=tuple(seen.dependencies),
            store=seen.store,
        )

    def _starved(self, pools: Pools) -> tuple[Starved, ...]:
        """Templates from before this server lost, or refused, what they need."""
        return tuple(
            Starved(
                template=pool.template.name,
                wanted=pool.template.spec.min_idle,
                has=pool.counts.get(NodeState.IDLE, 0),
                why=lacks.why,
            )
            for pool in pools.items
            if pool.template.spec.min_idle and (lacks := lack(self._ports, pool.template.spec))
        )

    async def _runs(self) -> Runs:
        store = self._ports.store
        page = await store.nodes(states=(NodeState.RUNNING,), template=None, after=None, limit=NODES_MOST)
        vitals = await store.vitals([node.id for node in page.items])
        return Runs(items=holdings(page.items, vitals), more=page.next is not None)

    async def pools(self, paused: Sequence[str | None]) -> Pools:
        store = self._ports.store
        installation = await store.installation()
        census = await self._ports.overview.census()
        # Whole clusters are no nodes, and have no pool; of a retired template it is what is left.
        templates = [
            each
            for each in await store.templates()
            if not each.spec.clusters
            and not (each.spec.retired and not any(census.get(each.name, {}).values()))
        ]
        usages = await together(store.usage(template.name) for template in templates)
        items = [
            Pool(
                template=template,
                counts=census.get(template.name, {}),
                used=usage.template,
                paused=template.name in paused,
            )
            for template, usage in zip(templates, usages, strict=True)
        ]
        return Pools(
            items=tuple(items),
            used=usages[0].total if usages else 0,
            max_nodes=installation.max_nodes,
            paused=None in paused,
        )

    def _judged(self, ticks: Sequence[Tick], now: float) -> tuple[DutySign, ...]:
        known = {tick.name: tick for tick in ticks}
        return tuple(
            _duty(name, every, known.get(name), since=self._since, now=now) for name, every in self._duties
        )


def _duty(name: str, every: float, tick: Tick | None, *, since: float, now: float) -> DutySign:
    ticked_at = tick.at if tick is not None else None
    return DutySign(
        name=name,
        every=every,
        ticked_at=ticked_at,
        late=signs.late(ticked_at, every=every, since=since, now=now),
        problem=tick.problem if tick is not None else "",
    )


def _failures(failed: Sequence[Failure], *, since: float) -> Failures:
    """The list is the newest: what it holds back is older than all that it shows."""
    within = [each for each in failed if each.at >= since]
    return Failures(groups=grouped(within), more=len(within) == FAILURES_MOST)


def _last_handed(handed: Sequence[Handover]) -> Mapping[str, float]:
    last: dict[str, float] = {}
    for each in handed:
        if each.template is not None:
            last[each.template] = max(each.at, last.get(each.template, 0.0))
    return last


def _terminating(pools: Pools, ending: Sequence[Node]) -> int:
    """Of known templates by the census, which is exact; strays have none."""
    known = {pool.template.name for pool in pools.items}
    counted = sum(pool.counts.get(NodeState.TERMINATING, 0) for pool in pools.items)
    return counted + sum(node.template not in known for node in ending)
