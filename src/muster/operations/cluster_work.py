"""Do the work on a cluster: its reads, bounded calls, and writes of steps. See muster.ports.clusters.

Each call to the provider has a time limit and a pace, so that the wake-ups of our own writes cause no
calls. Keeps nothing in memory that a crash would lose.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, replace
from typing import TypeVar

from muster.domain import cluster_decisions as decisions
from muster.domain import operation as operations
from muster.domain.backoff import backoff
from muster.domain.cluster import LIVE_CLUSTERS, Cluster, ClusterChange, ClusterPlan, changed
from muster.domain.cluster_decisions import LEARNED_FROM, Done, Situation, Wait
from muster.domain.errors import ProviderError, Uncertain
from muster.domain.operation import Operation, OperationChange, Status, Verdict
from muster.domain.progress import Part, Progress
from muster.domain.settings import Settings
from muster.domain.template import TemplateSpec
from muster.operations.driven_lease import (
    ANSWER_WITHIN,
    DrivenLease,
    Next,
    ProgressPublisher,
    prolong,
    still_driven,
)
from muster.operations.watch import WatchTracker
from muster.ports.bundle import Ports
from muster.ports.cluster_store import FORGET
from muster.ports.clusters import ClusterProvider
from muster.ports.paging import items

T = TypeVar("T")
logger = logging.getLogger(__name__)

REPEAT_FIRST = 2.0
REPEAT_MOST = 60.0
PAGE = 200


class ClusterWorks:
    """Gives the work on the cluster of an operation."""

    def __init__(self, ports: Ports, settings: Settings, watch_tracker: WatchTracker) -> None:
        self._ports = ports
        self._watch_tracker = watch_tracker
        self._publisher = ProgressPublisher(ports.store, settings)

    async def begun(self, driven: DrivenLease) -> "Work | None":
        """None: the operation has ended. Raises LeaseLost."""
        store = self._ports.store
        operation = await store.operation(driven.operation_id)
        if not still_driven(operation, driven):
            return None
        cluster = await self._ports.clusters.of_operation(operation.id)
        template = (await store.template(cluster.template, cluster.revision)).spec
        provider = self._ports.cluster_providers[cluster.provider]
        at = Situation(
            operation=operation,
            cluster=cluster,
            plan=provider.plan(cluster.name, template),
            steps=provider.steps,
            installation=(await store.installation()).id,
            now=self._ports.clock.now(),
            due_at=await self._watch_tracker.due(operation),
        )
        history = await self._ports.clusters.create_seconds(cluster.template, limit=LEARNED_FROM)
        return Work(
            ports=self._ports,
            publisher=self._publisher,
            at=at,
            template=template,
            provider=provider,
            driven=driven,
            history=tuple(history),
        )


@dataclass(slots=True, kw_only=True)
class Work:
    """One look at one cluster's work. Implements muster.ports.clusters.ClusterWork."""

    ports: Ports
    publisher: ProgressPublisher
    at: Situation
    template: TemplateSpec
    provider: ClusterProvider
    driven: DrivenLease
    history: tuple[float, ...]

    @property
    def cluster(self) -> Cluster:
        return self.at.cluster

    @property
    def failures(self) -> int:
        return self.driven.failures

    def now(self) -> float:
        return self.ports.clock.now()

    # --- calls ------------------------------------------------------------------------------------

    async def call(self, call: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self.provider.call_timeout):
                return await call
        except TimeoutError as error:
            raise Uncertain("the state is unknown: the provider did not answer in time") from error

    async def hold(self) -> None:
        until = self.now() + self.provider.call_timeout + ANSWER_WITHIN
        await prolong(self.ports.store, self.driven, until=until)

    def later(self, seconds: float) -> Next:
        self.driven.retry_at = self.now() + seconds
        return Next(at=self.driven.retry_at)

    def back_off(self, error: ProviderError) -> Next:
        """The state is unknown: ask again, less often the longer it lasts."""
        self.driven.failures += 1
        seconds = backoff(self.driven.failures, first=REPEAT_FIRST, most=REPEAT_MOST)
        logger.info(
            "cannot see the cluster",
            extra={"operation_id": self.at.operation.id, "error": str(error)},
        )
        return self.later(seconds * (1 + self.ports.ids.jitter() / 4))

    def unknown_since(self) -> float:
        self.driven.unknown_since = self.driven.unknown_since or self.at.now
        return self.driven.unknown_since

    async def token(self) -> str | None:
        return await self.ports.clusters.token(self.cluster.id)

    async def neighbours(self) -> AsyncIterator[tuple[Cluster, ClusterPlan]]:
        store = self.ports.clusters
        async for each in items(lambda after: store.clusters(states=LIVE_CLUSTERS, after=after, limit=PAGE)):
            if each.id != self.cluster.id:
                template = await self.ports.store.template(each.template, each.revision)
                plan = self.ports.cluster_providers[each.provider].plan(each.name, template.spec)
                yield each, plan

    # --- writes -----------------------------------------------------------------------------------

    async def write(
        self, change: ClusterChange, operation: OperationChange | None = None, *, token: str | None = None
    ) -> None:
        """What was just written is what is decided on from here. What is undone needs no token any more."""
        fence = self.driven.fence
        token = FORGET if self.at.steps.undo(change.after.stage) else token
        cluster = await self.ports.clusters.write(change, fence=fence, operation=operation, token=token)
        after: Operation = operation.after if operation is not None else self.at.operation
        self.at = replace(self.at, cluster=cluster, operation=after)

    async def remember(self, *, token: str | None = None, **facts: object) -> None:
        await self.write(changed(self.cluster, now=self.now(), stage=None, **facts), token=token)

    async def enter(self, stage: str, done: Done | None = None) -> Next:
        """On to a stage, shown in the same write."""
        done = done or Done()
        now = self.now()
        change = changed(self.cluster, now=now, stage=stage, **done.facts)
        ahead = replace(self.at, cluster=change.after, now=now)
        progress = decisions.shown(ahead, message=done.note, history=self.history)
        shown = operations.progressed(self.at.operation, progress, now=now)
        await self.write(change, shown)
        self.driven.published_at, self.driven.failures, self.driven.retry_at = now, 0, 0.0
        return Next(at=now)

    async def publish(self, message: str, parts: tuple[Part, ...] | None = None) -> None:
        now = self.now()
        progress = decisions.shown(
            replace(self.at, now=now), message=message, parts=parts, history=self.history
        )
        await self.publisher.publish(self.at.operation, progress, self.driven, now=now, at_once=True)
        if self.driven.published_at == now:
            # The write moved the record; what it also shows, a cancel perhaps, is decided on later.
            self.at = replace(self.at, operation=await self.ports.store.operation(self.at.operation.id))

    async def wait(self, wait: Wait) -> Next:
        if wait.message is not None:
            await self.publish(wait.message, wait.parts)
        self.driven.failures = 0
        return self.later(wait.seconds)

    async def end(
        self,
        status: Status,
        change: ClusterChange,
        *,
        progress: Progress | None,
        verdict: Verdict | None = None,
        result: str = "",
    ) -> Next | None:
        """The operation and its cluster reach their ends in one write. Nothing is next."""
        end = operations.ended(
            self.at.operation,
            status,
            now=change.at,
            progress=progress,
            verdict=verdict,
            result=result,
        )
        await self.write(change, end)
        return None
