"""Collect heartbeats for a moment and write them together. They change vitals, never a node's record.

A heartbeat that is processed now may be old: a replica that was paused finds all that arrived meanwhile,
also from machines that are gone. So heartbeats are dated by a pulse. Everything received is processed
between two pulses, so a heartbeat in hand arrived after the pulse before the last, and gets that time. A
pause also stops the pulse, so a heartbeat never gets younger by waiting.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping

from muster.domain.checks import RUN_MAX
from muster.domain.deadlines import CLOCK_ERROR
from muster.domain.errors import StoreUnavailable
from muster.domain.health import Health
from muster.domain.ids import NodeId
from muster.enrolment.reports import in_short
from muster.ports.clock import Clock
from muster.ports.store import Alive, Beat, Store
from muster.ports.wakeups import HEALTH, Wakeups

logger = logging.getLogger(__name__)
REPORTED_MOST = 50_000
KEPT_MOST = CLOCK_ERROR / 2
"""Seconds after which a beat is dropped that could not be written. The store would take a much older one for
the first after a clock was set back."""


def _newer(before: Beat, beat: Beat) -> Beat:
    """Return the later of two beats. What was said a moment ago, and isn't written yet, still stands."""
    if before.seen_at > beat.seen_at:
        return before
    activity = max((each for each in (before.activity, beat.activity) if each is not None), default=None)
    said, reason = beat.said, beat.reason
    if said is None or (said is Health.STARTING and before.said is not None):
        said, reason = before.said, before.reason
    return Beat(beat.node_id, beat.seen_at, activity, said, reason)


class Heartbeats:
    def __init__(self, store: Store, clock: Clock, wakeups: Wakeups, *, flush_every: float) -> None:
        self._store = store
        self._clock = clock
        self._wakeups = wakeups
        self._reported: dict[NodeId, Health] = {}
        """What was last written of those who speak for themselves."""
        self._flush_every = flush_every
        self._pending: dict[NodeId, Beat] = {}
        self._alive: dict[float, dict[NodeId, object]] = {}
        self._pulses: tuple[float, float] | None = None

    @property
    def arrived_by(self) -> float:
        """Return the latest time before which everything in hand has certainly arrived."""
        now = self._clock.now()
        return now if self._pulses is None else min(now, self._pulses[0])

    def beat(
        self,
        node_id: NodeId,
        *,
        activity: int | None = None,
        said: Health | None = None,
        reason: str = "",
        arrived_at: float | None = None,
    ) -> None:
        """Note a heartbeat. `arrived_at`: the value of `arrived_by` on arrival, if that was a while ago."""
        at = self.arrived_by if arrived_at is None else arrived_at
        if activity is None and said is None and node_id not in self._pending:
            self._alive.setdefault(at, {})[node_id] = None
            return
        if reason:
            reason = in_short(reason, longest=RUN_MAX)
        beat = Beat(node_id, at, activity, said, reason)
        before = self._pending.get(node_id)
        self._pending[node_id] = beat if before is None else _newer(before, beat)

    def alive(self, node_ids: Iterable[NodeId], arrived_at: float) -> None:
        """Note heartbeats that say nothing but that the nodes live."""
        together = self._alive.setdefault(arrived_at, {})
        together.update(dict.fromkeys(node_ids))
        self._carry(arrived_at, together)

    async def run(self) -> None:
        """Tell the time by pulses, and write after each what came before it."""
        last = self._clock.now()
        writing: asyncio.Task[None] | None = None
        async with asyncio.TaskGroup() as group:
            while True:
                self._pulses = (last, self._clock.now())
                last = self._pulses[1]
                await self._clock.sleep(self._flush_every)
                # Apart from the pulse: a slow store makes no beat older.
                if (self._pending or self._alive) and (writing is None or writing.done()):
                    writing = group.create_task(self._write())

    async def _write(self) -> None:
        try:
            await self.flush()
        except StoreUnavailable as error:
            logger.warning("cannot write heartbeats", extra={"error": str(error)})
        except Exception:
            # Whatever it was, the replica lives on; the next flush tries again.
            logger.exception("cannot write heartbeats")

    async def flush(self) -> None:
        """Write what was gathered. What can't be written is kept for a while, unless the node beat again."""
        pending, self._pending = self._pending, {}
        alive, self._alive = self._alive, {}
        oldest = self._clock.now() - KEPT_MOST
        taken = {node_id: beat for node_id, beat in pending.items() if beat.seen_at > oldest}
        living = {at: node_ids for at, node_ids in alive.items() if at > oldest}
        if not taken and not living:
            return
        try:
            await self._store.record_beats(tuple(taken.values()), living)
        except Exception:
            for node_id, beat in taken.items():
                newer = self._pending.get(node_id)
                if newer is None or newer.seen_at < beat.seen_at:
                    self._pending[node_id] = beat
            self._keep_alive(living)
            raise
        if self._health_changed(taken):
            self._wakeups.notify(HEALTH)

    def _keep_alive(self, unwritten: Alive) -> None:
        """Keep beats for the next flush: of each node the newest, so that a long outage fills no memory."""
        newest: dict[NodeId, float] = {}
        for at, node_ids in sorted([*unwritten.items(), *self._alive.items()], key=lambda each: each[0]):
            newest.update(dict.fromkeys(node_ids, at))
        self._alive = {}
        for node_id, at in newest.items():
            self._alive.setdefault(at, {})[node_id] = None
        for at, node_ids in self._alive.items():
            self._carry(at, node_ids)

    def _carry(self, at: float, living: dict[NodeId, object]) -> None:
        """Give what nodes said, and isn't written yet, the time of their later beats."""
        for node_id in self._pending.keys() & living.keys():
            del living[node_id]
            self._pending[node_id] = _newer(self._pending[node_id], Beat(node_id, at))

    def _health_changed(self, written: Mapping[NodeId, Beat]) -> bool:
        """Return whether a node reports another health than before. Only a hint: what is forgotten is news
        again."""
        reported = {node_id: beat.said for node_id, beat in written.items() if beat.said is not None}
        new = any(self._reported.get(node_id) is not health for node_id, health in reported.items())
        if len(self._reported) > REPORTED_MOST:
            self._reported.clear()
        self._reported.update(reported)
        return new
