"""Tell nodes to beat more slowly the more of them there are, and faster again when there are fewer.

Owns the interval that all replicas tell their nodes. The rule is in `muster.domain.pace`.
"""

import logging

from muster.domain.pace import interval
from muster.domain.settings import Settings
from muster.operations.watch import WatchTracker
from muster.ports.bundle import Ports
from muster.ports.store import TOTAL

logger = logging.getLogger(__name__)


class PaceKeeper:
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
