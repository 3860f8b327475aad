"""Read everything once, in bounded reads, and let the domain judge it. Writes nothing.

Figures of nodes, operations and duties come from the store, so every replica gives the same ones. Figures
of calls are this replica's own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from muster.domain import observations
from muster.domain.cluster import LIVE_CLUSTERS, Cluster, ClusterState
from muster.domain.deadlines import overdue_after
from muster.domain.failures import ORDERLY, Failed, Failure, LocalAdvice, grouped
from muster.domain.ids import OperationId
from muster.domain.job_figures import JobFigures, served, with_source
from muster.domain.job_figures import grouped as grouped_jobs
from muster.domain.jobs import JobState
from muster.domain.lifecycle import Fact, NodeState, Verb
from muster.domain.node import Node
from muster.domain.observations import (
    DAY,
    HOUR,
    Calls,
    ClusterSign,
    Dependency,
    DutyObservation,
    Observations,
    Starved,
)
from muster.domain.operation import Kind, Operation
from muster.domain.overview import (
    Counted,
    Failures,
    Handover,
    HeldNode,
    Leftovers,
    Overview,
    Pool,
    Pools,
    Runs,
    holdings,
    split_acknowledged,
    warmth,
)
from muster.domain.reasons import Reason
from muster.domain.recent_changes import changes
from muster.domain.run_decisions import run_of
from muster.domain.settings import Settings
from muster.domain.verdicts import all_well, judge
from muster.domain.wait_reasons import waiting
from muster.operations.concurrency import concurrently
from muster.operations.templates import unmet_requirement
from muster.ports.bundle import Ports
from muster.ports.overview import Tick
from muster.ports.store import Page, Store, operation_of

OPERATIONS_MOST = 500
NODES_MOST = 500
FAILURES_MOST = 1000
HANDOVERS_MOST = 1000
CHANGES_MOST = 200
CLUSTERS_MOST = 200
JOBS_MOST = 1000
KEEPERS_NAMED = 20
_KEEPER_EVENTS_MOST = 50
_KEPT_BY = (Fact.HELD.value, Verb.EXTEND.value)
_SERVED = (JobState.RUNNING, JobState.COMPLETED)


class Telemetry(Protocol):
    """How this replica's calls go."""

    def store_calls(self, *, now: float) -> Calls: ...

    def dependencies(self, *, now: float) -> tuple[Dependency, ...]: ...


class OverviewReader:
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
        clusters = (
            await self._ports.clusters.clusters(states=LIVE_CLUSTERS, after=None, limit=CLUSTERS_MOST)
        ).items
        local = {
            pool.template.name: self._ports.advice.get(pool.template.spec.provider, {})
            for pool in pools.items
            if pool.template.spec.provider in self._ports.local
        }
        jobs = await self.jobs()
        running = await self._nodes(NodeState.RUNNING)
        failed_nodes = await self._nodes(NodeState.FAILED)
        behind = tuple(
            replace(each, removed=each.webhook not in self._ports.outgoing)
            for each in await self._ports.messages.backlogs()
        )
        changed = changes(await store.changes(since=now - DAY, limit=CHANGES_MOST))
        waits = Counted(
            groups=waiting(open_now, paused=paused, now=now), more=len(open_now) == OPERATIONS_MOST
        )
        failed_hour = _failures(failed, since=now - HOUR, local=local)
        stuck = tuple(node for node in ending if node.entered_at < now - self._attention)
        orphans = tuple(node for node in ending if node.reason is Reason.ORPHAN)
        seen = Observations(
            now=now,
            store=self._telemetry.store_calls(now=now),
            dependencies=self._telemetry.dependencies(now=now),
            duties=self._judged(ticks, now),
            waiting=waits.groups,
            failures=failed_hour.groups,
            handed_over=_last_handed(handed, clusters),
            health=health,
            stuck=stuck,
            orphans=orphans,
            paused=paused,
            starved=self._starved(pools),
            clusters=tuple(_failing(clusters, open_now)),
            local=local,
            internal=tuple(
                each
                for each in failed
                if each.at >= now - HOUR and each.what is Failed.OPERATION and each.reason is Reason.INTERNAL
            ),
            unserved=jobs.unserved,
            job_sources=jobs.sources,
            stuck_operations=_stuck(open_now, now),
            undelivered=behind,
        )
        found, acknowledged = split_acknowledged(
            judge(seen), await self._ports.access.acknowledgements(), now=now
        )
        return Overview(
            at=now,
            replica=self._owner,
            verdict=found[0] if found else all_well(seen, acknowledged=len(acknowledged)),
            findings=found,
            acknowledged=acknowledged,
            waiting=waits,
            runs=await self._runs(running),
            failed_hour=failed_hour,
            failed_day=_failures(failed, since=now - DAY, local=local),
            leftovers=Leftovers(terminating=_terminating(pools, ending), stuck=stuck, orphans=orphans),
            changes=changed,
            warm_hour=warmth([each for each in handed if each.at >= now - HOUR]),
            warm_day=warmth(handed),
            warm_more=len(handed) == HANDOVERS_MOST,
            jobs=jobs,
            pools=pools,
            health=observations.in_all(health),
            paused=paused,
            duties=tuple(seen.duties),
            dependencies=tuple(seen.dependencies),
            store=seen.store,
            held=await held_nodes(self._ports.store, (*failed_nodes.items, *running.items), pools),
            undelivered=behind,
        )

    def _starved(self, pools: Pools) -> tuple[Starved, ...]:
        """Return templates that keep warm nodes and need something that this server lost or refuses."""
        return tuple(
            Starved(
                template=pool.template.name,
                wanted=pool.template.spec.min_idle,
                has=pool.counts.get(NodeState.IDLE, 0),
                why=lacks.why,
            )
            for pool in pools.items
            if pool.template.spec.min_idle and (lacks := unmet_requirement(self._ports, pool.template.spec))
        )

    async def _nodes(self, state: NodeState) -> Page[Node]:
        return await self._ports.store.nodes(states=(state,), template=None, after=None, limit=NODES_MOST)

    async def _runs(self, running: Page[Node]) -> Runs:
        vitals = await self._ports.store.vitals([node.id for node in running.items])
        return Runs(items=holdings(running.items, vitals), more=running.next is not None)

    async def jobs(self) -> JobFigures:
        """Return the figures of jobs: the oldest that wait, and the newest that started."""
        store, now = self._ports.jobs, self._ports.clock.now()
        waiting = await store.waiting(limit=JOBS_MOST)
        started = (await store.jobs(states=_SERVED, limit=JOBS_MOST)).items
        sources = tuple(await store.source_counts())
        return JobFigures(
            queued=await store.count(JobState.QUEUED),
            running=await store.count(JobState.RUNNING),
            unserved=grouped_jobs([with_source(job, sources) for job in waiting]),
            more=len(waiting) == JOBS_MOST,
            hour=served(started, since=now - HOUR),
            day=served(started, since=now - DAY),
            served_more=len(started) == JOBS_MOST,
            sources=sources,
        )

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
        usages = await concurrently(store.usage(template.name) for template in templates)
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

    def _judged(self, ticks: Sequence[Tick], now: float) -> tuple[DutyObservation, ...]:
        known = {tick.name: tick for tick in ticks}
        return tuple(
            _duty(name, every, known.get(name), since=self._since, now=now) for name, every in self._duties
        )


def _duty(name: str, every: float, tick: Tick | None, *, since: float, now: float) -> DutyObservation:
    ticked_at = tick.at if tick is not None else None
    return DutyObservation(
        name=name,
        every=every,
        ticked_at=ticked_at,
        late=observations.late(ticked_at, every=every, since=since, now=now),
        problem=tick.problem if tick is not None else "",
    )


def _failing(clusters: Sequence[Cluster], unfinished: Sequence[Operation]) -> Iterator[ClusterSign]:
    working = {operation.id: operation for operation in unfinished}
    for cluster in clusters:
        operation = working.get(cluster.operation_id)
        verdict = None if operation is None else operation.verdict
        left = cluster.state is ClusterState.FAILED
        if left or (verdict is not None and verdict.reason not in ORDERLY):
            yield ClusterSign(
                name=cluster.name,
                operation_id=cluster.operation_id,
                reason=verdict.reason if verdict is not None else cluster.reason,
                detail=(verdict.message if verdict is not None else cluster.detail).partition("\n")[0],
                since=cluster.stage_at if operation is None else operation.created_at,
                left=left,
                deleting=operation is not None and operation.kind is Kind.CLUSTER_DELETE,
            )


def _failures(failed: Sequence[Failure], *, since: float, local: LocalAdvice) -> Failures:
    """The list is the newest: what it holds back is older than all that it shows."""
    within = [each for each in failed if each.at >= since]
    return Failures(groups=grouped(within, local=local), more=len(within) == FAILURES_MOST)


def _stuck(open_now: Sequence[Operation], now: float) -> tuple[Operation, ...]:
    """Return the stuck operations: those with the most errors first, then the latest."""
    stuck = [each for each in open_now if each.errors or now > each.deadline_at + _late(each)]
    return tuple(sorted(stuck, key=lambda each: (-each.errors, each.deadline_at, each.id)))


def _late(operation: Operation) -> float:
    """Return the seconds by which an operation may outlive its deadline while it gives back what it made."""
    return overdue_after(operation.kind) / 2


def _last_handed(handed: Sequence[Handover], clusters: Sequence[Cluster]) -> Mapping[str, float]:
    last: dict[str, float] = {}
    for cluster in clusters:
        if cluster.ready_at is not None:
            last[cluster.template] = max(cluster.ready_at, last.get(cluster.template, 0.0))
    for each in handed:
        if each.template is not None:
            last[each.template] = max(each.at, last.get(each.template, 0.0))
    return last


def _terminating(pools: Pools, ending: Sequence[Node]) -> int:
    """Return how many nodes are being terminated: by the exact census for known templates, else as listed."""
    known = {pool.template.name for pool in pools.items}
    counted = sum(pool.counts.get(NodeState.TERMINATING, 0) for pool in pools.items)
    return counted + sum(node.template not in known for node in ending)


async def held_nodes(store: Store, nodes: Sequence[Node], pools: Pools) -> tuple[HeldNode, ...]:
    """Return those of the nodes that are kept for a look, the one that ends first at the front. Who keeps a
    node is looked up for the first few."""
    held = sorted((each for each in nodes if each.held), key=lambda each: (each.deadline_at or 0.0, each.id))
    names = await concurrently(_keeper(store, each) for each in held[:KEEPERS_NAMED])
    caps = {pool.template.name: (pool.used, pool.template.spec.max_nodes) for pool in pools.items}
    found = []
    for number, node in enumerate(held):
        used, most = caps.get(node.template, (0, 0))
        found.append(
            HeldNode(node=node, by=names[number] if number < len(names) else "", used=used, max_nodes=most)
        )
    return tuple(found)


async def _keeper(store: Store, node: Node) -> str:
    """Return who keeps the node: who held or extended it last, else who asked for its operation. Empty: not
    known."""
    for event in reversed((await store.last_events(limit=_KEEPER_EVENTS_MOST, entity_id=node.id)).items):
        if event.name in _KEPT_BY and event.actor:
            return event.actor
    provision = await operation_of(store, node)
    if provision is None:
        return ""
    return await _asker(store, run_of(provision.idempotency_key) or provision.id)


async def _asker(store: Store, operation_id: OperationId) -> str:
    first = (await store.events(after=None, limit=1, entity_id=operation_id)).items
    return first[0].actor if first else ""
