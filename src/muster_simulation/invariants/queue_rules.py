"""Check a promise about the queue: the first one that fits under the caps goes on soon."""

from muster.domain.settings import Settings
from muster_simulation.invariants.broken import Broken
from muster_simulation.invariants.context import Context
from muster_simulation.invariants.folding import Record

LOOKS = 6
STARVED = (Settings().absent_after or 0.0) + Settings().present_every + LOOKS * Settings().poll_every
"""Seconds of calm, with room all the time, after which the head of a queue must have left it.

Its driver looks every `poll_every`, and may lose some looks to a store that fails. If its replica is dead or
paused, another one has to notice that first.
"""


class QueueRules:
    def __init__(self, context: Context) -> None:
        self._at = context
        self.total_cap: int | None = None
        """The cap over all templates as it is now; the world says it."""
        self._fits_since: dict[str, float] = {}
        """Heads of queues for which there is room."""
        self._waited: dict[str, float] = {}

    def saw(self) -> None:
        """Something happened: room, or a queue, may have changed."""
        records = self._at.records
        fitting: dict[str, float] = {}
        for waiting in records.waiting.values():
            if not waiting:
                continue
            head = min(
                (records.operations[each] for each in waiting),
                key=lambda operation: (operation["created_at"], operation["id"]),
            )
            if head["status"] == "queued" and head["request"]["count"] <= self._room(head):
                fitting[head["id"]] = self._fits_since.get(head["id"], self._at.now())
        self._fits_since = fitting

    def tick(self, seconds: float, *, calm: bool) -> None:
        """Only time in which all was calm and the room was there throughout counts."""
        began = self._at.now() - seconds
        self._waited = {
            head: self._waited.get(head, 0.0) + seconds
            for head, since in self._fits_since.items()
            if calm and since <= began
        }
        for head, waited in self._waited.items():
            if waited > STARVED:
                raise Broken(
                    "the_head_of_the_queue_goes_on",
                    f"room for {waited:.0f} s of calm: {self._at.records.operations[head]}",
                )

    def _room(self, head: Record) -> int:
        records = self._at.records
        if self.total_cap is None:
            return 0
        cap: int = records.spec(head["template"])["max_nodes"]
        return min(cap - records.recorded.get(head["template"], 0), self.total_cap - records.total)
