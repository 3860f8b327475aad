"""Set how often nodes beat, judge their health, and give up those that stay offline."""

import logging
from collections.abc import Sequence
from contextlib import suppress

from muster.domain import health
from muster.domain import node as nodes
from muster.domain.deadlines import Limits, Watch
from muster.domain.errors import Conflict
from muster.domain.health import HealthChange, Vitals
from muster.domain.ids import NodeId
from muster.domain.lifecycle import NodeState
from muster.domain.pace import interval
from muster.domain.reasons import Reason
from muster.domain.settings import Settings
from muster.operations.concurrency import concurrently
from muster.operations.watch import WatchTracker
from muster.ports.bundle import Ports
from muster.ports.store import TOTAL

BATCH = 500
AT_ONCE = 50
"""Changes of health that are written side by side. A store that writes one by one commits them together."""


class StatusKeeper:
    """Judge the health of nodes, and only of those whose stored health may be outdated.

    Writes health, never a state. `LostNodes` acts on bad health.
    """

    def __init__(self, ports: Ports, settings: Settings, watch_tracker: WatchTracker) -> None:
        self._ports = ports
        self._store = ports.store
        self._limits = settings.limits
        self._watch_tracker = watch_tracker

    async def reconcile(self) -> None:
        after: NodeId | None = None
        while True:
            # The time first: if we stand still before the watch is known, it began anew after that time.
            now = self._ports.clock.now()
            watch = await self._watch_tracker.look()
            limits = watch.limits(self._limits, now=now)
            some = await self._store.suspects(
                stale_before=now - limits.stale_after,
                settled_before=now - limits.max_transition,
                after=after,
                limit=BATCH,
            )
            await self._judge(some, watch, limits, now)
            if len(some) < BATCH:
                return
            after = some[-1].node_id

    async def _judge(self, suspects: Sequence[Vitals], watch: Watch, limits: Limits, now: float) -> None:
        changes = [
            (vitals, health.judge(vitals, now=now, observing_since=watch.since, limits=limits))
            for vitals in suspects
        ]
        judged = [vitals for vitals, change in changes if change is None]
        due = [(vitals, change) for vitals, change in changes if change is not None]
        for start in range(0, len(due), AT_ONCE):
            some = due[start : start + AT_ONCE]
            written = await concurrently(self._written(change) for _, change in some)
            judged += [vitals for (vitals, _), done in zip(some, written, strict=True) if done]
        news = [vitals for vitals in judged if vitals.news]
        if news:
            await self._store.mark_news_judged(news)

    async def _written(self, change: HealthChange) -> bool:
        try:
            await self._store.write_health(change)
        except Conflict:
            return False  # it joined anew, or is gone: what it said then is still news
        return True


class LostNodes:
    """Give up nodes that are offline for too long: idle ones soon, running ones later.

    Time in which no replica watched does not count.
    """

    def __init__(self, ports: Ports, settings: Settings, watch_tracker: WatchTracker) -> None:
        self._ports = ports
        self._store = ports.store
        self._limits = settings.limits
        self._watch_tracker = watch_tracker

    async def reconcile(self) -> None:
        # A claim must not get a dead idle node; a run may survive a partition.
        await self._condemn(NodeState.IDLE, self._limits.dead_after)
        await self._condemn(NodeState.RUNNING, self._limits.lost_after)

    async def _condemn(self, state: NodeState, patience: float) -> None:
        # The time first: if we stand still before the watch is known, it began anew after that time.
        now = self._ports.clock.now()
        watch = await self._watch_tracker.look()
        if now - watch.since < patience and watch.away_from is not None:
            return
        for node in await self._store.offline(states=(state,), since_before=now - patience, limit=BATCH):
            detail = f"offline for more than {patience:.0f} s"
            with suppress(Conflict):  # it moved, or is back: the next look decides
                change = nodes.condemn(
                    node,
                    now=now,
                    reason=Reason.HEARTBEAT_LOST,
                    detail=detail,
                    silent_since=now - patience,
                )
                await self._store.apply(change)


logger = logging.getLogger(__name__)


class PaceKeeper:
    """Tell nodes to beat more slowly the more of them there are, and faster again when there are fewer.

    Owns the interval that all replicas tell their nodes. The rule is in `muster.domain.pace`.
    """

    def __init__(self, ports: Ports, settings: Settings, watch_tracker: WatchTracker) -> None:
        self._ports = ports
        self._limits = settings.limits
        self._watch_tracker = watch_tracker

    async def reconcile(self) -> None:
        nodes = (await self._ports.store.usage(TOTAL)).total
        pace = (await self._watch_tracker.look()).pace
        told = None if pace is None else pace.beat_seconds
        wanted = interval(
            nodes, least=self._limits.beat_seconds, rate=self._limits.beats_per_second, present=told
        )
        if wanted == told:
            return
        watch = await self._watch_tracker.set_beat(wanted)
        if told is not None:
            limits = watch.limits(self._limits, now=self._ports.clock.now())
            logger.info(
                "%d nodes: each beats every %g s from now on, and is called offline after %g s of silence",
                nodes,
                wanted,
                limits.stale_after,
            )
