"""Heartbeats: gathered for a moment, written together. They move a node's vitals, never its record."""

import logging

from muster.domain.errors import StoreUnavailable
from muster.domain.health import Health
from muster.domain.ids import NodeId
from muster.ports.clock import Clock
from muster.ports.store import Beat, Store

logger = logging.getLogger(__name__)


class Heartbeats:
    def __init__(self, store: Store, clock: Clock, *, flush_every: float) -> None:
        self._store = store
        self._clock = clock
        self._flush_every = flush_every
        self._pending: dict[NodeId, Beat] = {}

    def beat(
        self, node_id: NodeId, *, activity: int | None = None, said: Health | None = None, reason: str = ""
    ) -> None:
        self._pending[node_id] = Beat(
            node_id=node_id, seen_at=self._clock.now(), activity=activity, said=said, reason=reason
        )

    async def run(self) -> None:
        while True:
            await self._clock.sleep(self._flush_every)
            try:
                await self.flush()
            except StoreUnavailable as error:
                logger.warning("cannot write heartbeats", extra={"error": str(error)})

    async def flush(self) -> None:
        """Write what was gathered. What can't be written is kept, unless the node beat again meanwhile."""
        if not self._pending:
            return
        taken, self._pending = self._pending, {}
        try:
            await self._store.record_beats(tuple(taken.values()))
        except StoreUnavailable:
            self._pending = {**taken, **self._pending}
            raise
