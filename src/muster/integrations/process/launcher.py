"""One launch: granted under the capacity, then started slot by slot, and repeatable after a crash at any
point.

What was granted is written down first, so a repeat gives the same answer; slots that were never started
are started by the repeat, if there is still room. A slot that was marked as started and has no keeper is
gone: machines aren't resurrected. All launches under one root, in whatever process, happen one at a time:
that is what makes the capacity hold. Owns the launching lock; refuses to go on past its own deadline,
which is inside the caller's.
"""

import errno
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from muster.domain.errors import Refused, Throttled, TokenSpent, Uncertain
from muster.domain.matching import type_matches
from muster.domain.reasons import Reason
from muster.domain.serialization import to_plain
from muster.domain.text import counted
from muster.integrations.process.machines import machine
from muster.integrations.process.spawner import Spawner
from muster.ports.provider import LaunchAnswer, LaunchRequest
from muster.slots.looking import GONE, look
from muster.slots.tree import Grant, Slot, Tree, launching

LOCK_WAIT = 10.0
STARTING = 20.0
"""Together inside the call timeout: a launch must not surprise a caller who has waited that long."""
_NO_ROOM = (errno.EAGAIN, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    tree: Tree
    capacity: int
    now: Callable[[], float]
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def launch(self, request: LaunchRequest, spawner: Spawner, keep: Callable[[int], None]) -> LaunchAnswer:
        """`keep` is given the pid of every keeper that became a child of this process."""
        instance_type = self._fitting(request)
        latest = time.monotonic() + LOCK_WAIT + STARTING
        with self.launching(LOCK_WAIT) as mine:
            if not mine:
                raise Throttled("cannot launch now: another launch under this root is taking long", 1.0)
            grant, slots = self._granted(request, instance_type, spawner)
            for slot in slots:
                if slot.started:
                    continue
                if time.monotonic() > latest:
                    raise Uncertain(
                        f"cannot finish the launch in time: {slot.ordinal} of {grant.granted} started"
                    )
                grant = self._start(slot, grant, request, spawner, keep)
            return self._answer(grant, spawner)

    @contextmanager
    def launching(self, patience: float) -> Iterator[bool]:
        """The one turn to change what exists under this root; False if it can't be had in time."""
        latest = time.monotonic() + patience
        if not self._turn.acquire(timeout=patience):
            yield False
            return
        try:
            with launching(self.tree.root, max(0.0, latest - time.monotonic())) as mine:
                yield mine
        finally:
            self._turn.release()

    def _fitting(self, request: LaunchRequest) -> str:
        name = f"local.{request.resource_class.name}"
        if request.installation_id != self.tree.installation_id:
            raise Refused("cannot launch for another installation", Reason.PROVIDER_REFUSED)
        if not type_matches(name, request.instance_types):
            patterns = " ".join(request.instance_types)
            raise Refused(
                f"cannot launch: this machine offers {name}, which none of the patterns {patterns!r} allows",
                Reason.PROVIDER_REFUSED,
            )
        return name

    # --- how many ---------------------------------------------------------------------------------

    def _granted(
        self, request: LaunchRequest, instance_type: str, spawner: Spawner
    ) -> tuple[Grant, Sequence[Slot]]:
        directory = self.tree.directory(request.token)
        made_from = replace(request, template=request.template.machine)
        fingerprint = hashlib.sha256(json.dumps(to_plain(made_from), sort_keys=True).encode()).hexdigest()
        grant = self.tree.grant(directory)
        if grant is not None and grant.fingerprint != fingerprint:
            raise TokenSpent(f"cannot launch with token {request.token}: it was used with other parameters")
        fresh = grant or Grant(
            token=request.token,
            installation_id=request.installation_id,
            fingerprint=fingerprint,
            count=request.count,
            granted=request.count,
            instance_type=instance_type,
            usage_class=request.usage_class.value,
            at=self.now(),
        )
        started = [slot for slot in self.tree.slots(directory, fresh) if slot.started]
        room = self._room(spawner)
        if grant is None and room == 0:
            raise Refused(
                f"cannot launch: none of {counted(self.capacity, 'place')} is free", Reason.CAPACITY
            )
        if len(started) + room < fresh.granted:
            message = f"{room} of {counted(self.capacity, 'place')} free"
            fresh = replace(fresh, granted=len(started) + room, reason=Reason.CAPACITY.value, message=message)
        if fresh != grant:
            self._write(fresh)
            spawner.on_step("granted")
        return fresh, self.tree.slots(directory, fresh)

    def _room(self, spawner: Spawner) -> int:
        seen = look(list(self.tree.all_slots()), grace=spawner.grace, now=self.now())
        taken = sum(state != GONE for _, state in seen)
        return max(0, self.capacity - taken)

    def _write(self, grant: Grant) -> None:
        try:
            self.tree.write_grant(grant)
        except OSError as error:
            raise Throttled(f"cannot launch: the slots can't be written ({error})", 5.0) from error

    # --- one by one -------------------------------------------------------------------------------

    def _start(
        self,
        slot: Slot,
        grant: Grant,
        request: LaunchRequest,
        spawner: Spawner,
        keep: Callable[[int], None],
    ) -> Grant:
        if slot.ordinal >= grant.granted:
            return grant
        try:
            keep(spawner.start(slot, request.resource_class, now=self.now()))
        except OSError as error:
            # If it was marked as started, it is gone; if not, it is cut off. Nothing after it is tried.
            kept = slot.ordinal + (1 if slot.started else 0)
            reason = Reason.CAPACITY if error.errno in _NO_ROOM else Reason.PROVIDER_ERROR
            message = f"cannot start a process for {slot.machine_id}: {error}"
            if kept == 0:
                raise Throttled(message, 5.0) from error
            grant = replace(grant, granted=kept, reason=reason.value, message=message)
            self._write(grant)
        return grant

    def _answer(self, grant: Grant, spawner: Spawner) -> LaunchAnswer:
        """Machines that have ended since are not among them: the launch is partial, and says so."""
        slots = self.tree.slots(self.tree.directory(grant.token), grant)
        seen = look(slots, grace=spawner.grace, now=self.now())
        machines = tuple(machine(slot, state) for slot, state in seen if state != GONE)
        reason, message = Reason(grant.reason) if grant.reason else None, grant.message
        gone = [slot.machine_id for slot, state in seen if state == GONE]
        if gone:
            reason = reason or Reason.PARTIAL_LAUNCH
            message = "; ".join(filter(None, (message, f"already gone: {', '.join(gone)}")))
        return LaunchAnswer(machines=machines, reason=reason, message=message)
