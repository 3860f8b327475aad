"""Heartbeats at a price: a node's are written once in a while, and at once if they say something new.

Owns how often. A beat that is left out is no loss: `stale_after` is several times the pause, and the next one
is written. Remembers what this process wrote; another one that hears the same node writes it once more.
"""

from collections.abc import Sequence

from muster.domain.health import Health
from muster.domain.ids import NodeId
from muster.ports.store import Beat
from muster.stores.dynamodb.vitals import Liveness

REMEMBERED = 200_000
"""Nodes; beyond that, all are forgotten, and each is written once more than it need be."""


class Beats:
    def __init__(self, liveness: Liveness, *, every: float) -> None:
        self._liveness = liveness
        self._every = every
        self._written: dict[NodeId, tuple[float, Health | None, str]] = {}

    async def record(self, beats: Sequence[Beat]) -> None:
        due = [beat for beat in beats if self._due(beat)]
        await self._liveness.record(due)
        if len(self._written) > REMEMBERED:
            self._written.clear()
        for beat in due:
            self._written[beat.node_id] = (beat.seen_at, beat.said, beat.reason)

    def _due(self, beat: Beat) -> bool:
        at, said, reason = self._written.get(beat.node_id, (None, None, ""))
        if at is None or beat.seen_at >= at + self._every:
            return True
        # An older beat than one that was written is for the store to judge.
        return beat.seen_at < at or (beat.said is not None and (beat.said, beat.reason) != (said, reason))
