"""Share the reads, bounded calls and step writes of cluster create and delete.

Each call to the provider has a time limit and a pace, so that the wake-ups of our own writes cause no
calls. Keeps nothing in memory that a crash would lose.
"""

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import TypeVar

from muster.domain import cluster_showing as showing
from muster.domain import operation as operations
from muster.domain.backoff import backoff
from muster.domain.cluster import Cluster, ClusterChange, Stage, changed
from muster.domain.cluster_showing import LEARNED_FROM
from muster.domain.clustering import Situation
from muster.domain.errors import ProviderError, Uncertain
from muster.domain.operation import Operation, OperationChange, Status, Verdict
from muster.domain.progress import Part, Progress
from muster.domain.settings import Settings
from muster.domain.template import TemplateSpec
from muster.operations.driven_lease import ANSWER_WITHIN, DrivenLease, Next, prolong
from muster.operations.progress_publisher import ProgressPublisher
from muster.operations.watch import WatchTracker
from muster.ports.bundle import Ports
from muster.ports.clusters import ClusterProvider

T = TypeVar("T")
logger = logging.getLogger(__name__)

REPEAT_FIRST = 2.0
REPEAT_MOST = 60.0


class Work:
    """One look at one cluster's work, and what can be done about it."""

    def __init__(
        self,
        at: Situation,
        template: TemplateSpec,
        provider: ClusterProvider,
        driven: DrivenLease,
        history: Sequence[float],
    ) -> None:
        self.at = at
        self.template = template
        self.provider = provider
        self.driven = driven
        self.history = history

    @property
    def cluster(self) -> Cluster:
        return self.at.cluster

    def moved(self, cluster: Cluster, operation: Operation | None = None) -> None:
        """What was just written is what is decided on from here."""
        self.at = replace(self.at, cluster=cluster, operation=operation or self.at.operation)


class ClusterWorking:
    def __init__(self, ports: Ports, settings: Settings, watch_tracker: WatchTracker) -> None:
        self.ports = ports
        self.store = ports.clusters
        self._settings = settings
        self._watch_tracker = watch_tracker
        self._publisher = ProgressPublisher(ports.store, settings)

    async def begun(self, operation: Operation, driven: DrivenLease) -> Work:
        cluster = await self.store.of_operation(operation.id)
        template = await self.ports.store.template(cluster.template, cluster.revision)
        provider = self.ports.cluster_providers[cluster.provider]
        at = Situation(
            operation=operation,
            cluster=cluster,
            plan=provider.plan(cluster.name, template.spec),
            installation=(await self.ports.store.installation()).id,
            now=self.ports.clock.now(),
            due_at=await self._watch_tracker.due(operation),
        )
        history = await self.store.create_seconds(cluster.template, limit=LEARNED_FROM)
        return Work(at, template.spec, provider, driven, history)

    # --- calls ------------------------------------------------------------------------------------

    async def call(self, work: Work, call: Awaitable[T]) -> T:
        """Raises what the provider says; no answer in time is Uncertain."""
        try:
            async with asyncio.timeout(work.provider.call_timeout):
                return await call
        except TimeoutError as error:
            raise Uncertain("the state is unknown: the provider did not answer in time") from error

    async def hold(self, work: Work) -> None:
        """A call that makes or deletes must not outlive the right to write down what came of it."""
        until = self.ports.clock.now() + work.provider.call_timeout + ANSWER_WITHIN
        await prolong(self.ports.store, work.driven, until=until)

    def later(self, work: Work, seconds: float) -> Next:
        work.driven.retry_at = self.ports.clock.now() + seconds
        return Next(at=work.driven.retry_at)

    def back_off(self, work: Work, error: ProviderError) -> Next:
        """The state is unknown: ask again, less often the longer it lasts."""
        work.driven.failures += 1
        seconds = backoff(work.driven.failures, first=REPEAT_FIRST, most=REPEAT_MOST)
        logger.info(
            "cannot see the cluster",
            extra={"operation_id": work.at.operation.id, "error": str(error)},
        )
        return self.later(work, seconds * (1 + self.ports.ids.jitter() / 4))

    # --- writes -----------------------------------------------------------------------------------

    async def write(
        self,
        work: Work,
        change: ClusterChange,
        operation: OperationChange | None = None,
        *,
        token: str | None = None,
    ) -> None:
        cluster = await self.store.write(change, fence=work.driven.fence, operation=operation, token=token)
        work.moved(cluster, operation.after if operation is not None else None)

    async def enter(self, work: Work, stage: Stage, *, note: str = "", **facts: object) -> Next:
        """On to the next stage, shown in the same write."""
        now = self.ports.clock.now()
        change = changed(work.cluster, now=now, stage=stage, **facts)
        ahead = replace(work.at, cluster=change.after, now=now)
        progress = showing.shown(ahead, message=note, history=work.history)
        await self.write(work, change, operations.progressed(work.at.operation, progress, now=now))
        work.driven.published_at, work.driven.failures, work.driven.retry_at = now, 0, 0.0
        return Next(at=now)

    async def publish(self, work: Work, message: str, parts: tuple[Part, ...] | None = None) -> None:
        now = self.ports.clock.now()
        progress = showing.shown(
            replace(work.at, now=now), message=message, parts=parts, history=work.history
        )
        await self._publisher.publish(work.at.operation, progress, work.driven, now=now, at_once=True)
        if work.driven.published_at == now:
            # The write moved the record; what it also shows, a cancel perhaps, is decided on later.
            work.at = replace(work.at, operation=await self.ports.store.operation(work.at.operation.id))

    async def end(
        self,
        work: Work,
        status: Status,
        change: ClusterChange,
        *,
        progress: Progress | None,
        verdict: Verdict | None = None,
        result: str = "",
    ) -> None:
        """The operation and its cluster reach their ends in one write."""
        end = operations.ended(
            work.at.operation,
            status,
            now=change.at,
            progress=progress,
            verdict=verdict,
            result=result,
        )
        await self.write(work, change, end)
