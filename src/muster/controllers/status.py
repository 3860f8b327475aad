"""Judge the health of nodes, and only of those whose stored health may be outdated.

Writes health, never a state. `lost` acts on bad health.
"""

from collections.abc import Sequence

from muster.domain import health
from muster.domain.deadlines import Limits, Watch
from muster.domain.errors import Conflict
from muster.domain.health import Vitals
from muster.domain.ids import NodeId
from muster.domain.settings import Settings
from muster.operations.watch import WatchTracker
from muster.ports.bundle import Ports

BATCH = 500


class StatusKeeper:
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
        judged: list[Vitals] = []
        for vitals in suspects:
            change = health.judge(vitals, now=now, observing_since=watch.since, limits=limits)
            try:
                if change is not None:
                    await self._store.write_health(change)
            except Conflict:
                continue  # it joined anew, or is gone: what it said then is still news
            if vitals.news:
                judged.append(vitals)
        if judged:
            await self._store.mark_news_judged(judged)
