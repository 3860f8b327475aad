"""Give up nodes that are offline for too long: idle ones soon, running ones later.

Time in which no replica watched does not count.
"""

from muster.domain import node as nodes
from muster.domain.errors import Conflict
from muster.domain.lifecycle import NodeState
from muster.domain.reasons import Reason
from muster.domain.settings import Settings
from muster.operations.watch import WatchTracker
from muster.ports.bundle import Ports

BATCH = 500


class LostNodes:
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
            try:
                change = nodes.condemn(
                    node,
                    now=now,
                    reason=Reason.HEARTBEAT_LOST,
                    detail=detail,
                    silent_since=now - patience,
                )
                await self._store.apply(change)
            except Conflict:
                continue  # it moved, or is back: the next look decides
