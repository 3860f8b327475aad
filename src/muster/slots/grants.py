"""Grant a launch under the capacity, then start its slots one by one. A repeat after a crash at any point
goes on.

What was granted is written down first, so a repeat gives the same answer. Slots that were never started are
started by the repeat, if there is still room. A slot that was marked as started and has no keeper is gone:
machines aren't resurrected. The caller holds the launching lock: that is what makes the capacity hold.
"""

from __future__ import annotations

import errno
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from muster.slots.states import GONE, look

if TYPE_CHECKING:
    from collections.abc import Callable

    from muster.slots.tree import Grant, Slot, Tree

CAPACITY, PROVIDER_ERROR, PARTIAL_LAUNCH = "capacity", "provider_error", "partial_launch"
"""Words of `muster.domain.reasons.Reason`."""
_NO_ROOM = (errno.EAGAIN, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE)


class Spent(Exception):
    """The token was used with other parameters."""


class Full(Exception):
    """Nothing is free, and nothing was made."""


class Later(Exception):
    """Nothing was made. It may work later."""


class Late(Exception):
    """Some may have been started, and the time is over."""


@dataclass(frozen=True)
class Answer:
    """The machines that live, and why there are fewer than asked for."""

    living: list[tuple[Slot, str]]
    reason: str | None
    message: str


@dataclass(frozen=True)
class Granter:
    tree: Tree
    capacity: int
    grace: float
    now: float
    keeps_nothing: bool = False
    """Whether a grant of nothing is written down too, so that a repeat gets nothing again."""

    def launch(
        self,
        wanted: Grant,
        start: Callable[[Slot], object],
        *,
        latest: float,
        granted: Callable[[], object] = lambda: None,
    ) -> Answer:
        """Grant and start what `wanted` asks for. `latest` is of the monotonic clock. `granted` is told when
        a grant was written. Raises Spent, Full, Later or Late."""
        grant = self._grant(wanted, granted)
        for slot in self.tree.slots(self.tree.directory(grant.token), grant):
            if slot.started or slot.ordinal >= grant.granted:
                continue
            if time.monotonic() > latest:
                raise Late(f"cannot finish the launch in time: {slot.ordinal} of {grant.granted} started")
            grant = self._start(slot, grant, start)
        return self._answer(grant)

    def room(self) -> int:
        """How many places are free."""
        seen = look(list(self.tree.all_slots()), grace=self.grace, now=self.now)
        return max(0, self.capacity - sum(state != GONE for _, state in seen))

    def _grant(self, wanted: Grant, granted: Callable[[], object]) -> Grant:
        directory = self.tree.directory(wanted.token)
        grant = self.tree.grant(directory)
        if grant is not None and grant.fingerprint != wanted.fingerprint:
            raise Spent(f"cannot launch with token {wanted.token}: it was used with other parameters")
        fresh = grant or wanted
        started = sum(slot.started for slot in self.tree.slots(directory, fresh))
        room = self.room()
        places = f"{self.capacity} place{'' if self.capacity == 1 else 's'}"
        if grant is None and room == 0 and not self.keeps_nothing:
            raise Full(f"cannot launch: none of {places} is free")
        if started + room < fresh.granted:
            message = f"{room} of {places} free"
            fresh = replace(fresh, granted=started + room, reason=CAPACITY, message=message)
        if fresh != grant:
            self._write(fresh)
            granted()
        return fresh

    def _write(self, grant: Grant) -> None:
        try:
            self.tree.write_grant(grant)
        except OSError as error:
            raise Later(f"cannot launch: the slots can't be written ({error})") from error

    def _start(self, slot: Slot, grant: Grant, start: Callable[[Slot], object]) -> Grant:
        try:
            start(slot)
        except OSError as error:
            # If it was marked as started, it is gone; if not, it is cut off. Nothing after it is tried.
            kept = slot.ordinal + (1 if slot.started else 0)
            reason = CAPACITY if error.errno in _NO_ROOM else PROVIDER_ERROR
            message = f"cannot start a process for {slot.machine_id}: {error}"
            if kept == 0 and not self.keeps_nothing:
                raise Later(message) from error
            grant = replace(grant, granted=kept, reason=reason, message=message)
            self._write(grant)
        return grant

    def _answer(self, grant: Grant) -> Answer:
        """Machines that have ended since are not among them: the launch is partial, and says so."""
        slots = self.tree.slots(self.tree.directory(grant.token), grant)
        seen = look(slots, grace=self.grace, now=self.now)
        reason, message = grant.reason, grant.message
        gone = [slot.machine_id for slot, state in seen if state == GONE]
        if gone:
            reason = reason or PARTIAL_LAUNCH
            message = "; ".join(filter(None, (message, f"already gone: {', '.join(gone)}")))
        return Answer(
            living=[(slot, state) for slot, state in seen if state != GONE], reason=reason, message=message
        )
