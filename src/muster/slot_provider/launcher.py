"""One launch on this machine: one at a time under one root, in whatever process, and inside the caller's
deadline.

Owns the turn among this process's threads, and the translation into the port's errors. `slots.grants`
does the rest.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from muster.domain.errors import Refused, Throttled, TokenSpent, Uncertain
from muster.domain.matching import type_matches
from muster.domain.reasons import Reason
from muster.domain.template import ResourceClass, UsageClass
from muster.ports.provider import LaunchAnswer, LaunchRequest, Machine, MachineState
from muster.slots import grants
from muster.slots.grants import Granter
from muster.slots.tree import Grant, Slot, Tree, launching

LOCK_WAIT = 10.0
STARTING = 20.0
"""Together inside the call timeout: a launch must not surprise a caller who has waited that long."""


class Starter(Protocol):
    """How an integration starts the slots of one launch."""

    @property
    def grace(self) -> float:
        """Seconds between the request to end and the kill."""
        ...

    def start(self, slot: Slot, size: ResourceClass, *, now: float) -> int:
        """Start a slot that was never started; the keeper's pid, which is a child of this process."""
        ...

    def on_step(self, step: str) -> object:
        """Told after each step that changed something."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    family: str
    """The first part of its machines' types: `local` of `local.small`."""
    tree: Tree
    capacity: int
    now: Callable[[], float]
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def launch(self, request: LaunchRequest, starter: Starter, keep: Callable[[int], None]) -> LaunchAnswer:
        """Launch machines. `keep` gets the pid of every keeper that became a child of this process."""
        wanted = self._wanted(request)
        latest = time.monotonic() + LOCK_WAIT + STARTING
        with self.launching(LOCK_WAIT) as mine:
            if not mine:
                raise Throttled("cannot launch now: another launch under this root is taking long", 1.0)
            granter = Granter(tree=self.tree, capacity=self.capacity, grace=starter.grace, now=self.now())

            def start(slot: Slot) -> None:
                keep(starter.start(slot, request.resource_class, now=self.now()))

            try:
                answer = granter.launch(
                    wanted, start, latest=latest, granted=lambda: starter.on_step("granted")
                )
            except grants.Spent as error:
                raise TokenSpent(str(error)) from error
            except grants.Full as error:
                raise Refused(str(error), Reason.CAPACITY) from error
            except grants.Later as error:
                raise Throttled(str(error), 5.0) from error
            except grants.Late as error:
                raise Uncertain(str(error)) from error
        return LaunchAnswer(
            machines=tuple(machine(slot, state) for slot, state in answer.living),
            reason=Reason(answer.reason) if answer.reason else None,
            message=answer.message,
        )

    @contextmanager
    def launching(self, patience: float) -> Iterator[bool]:
        """Take the one turn to change what exists under this root; False if it can't be had in time."""
        latest = time.monotonic() + patience
        if not self._turn.acquire(timeout=patience):
            yield False
            return
        try:
            with launching(self.tree.root, max(0.0, latest - time.monotonic())) as mine:
                yield mine
        finally:
            self._turn.release()

    def _wanted(self, request: LaunchRequest) -> Grant:
        name = f"{self.family}.{request.resource_class.name}"
        if request.installation_id != self.tree.installation_id:
            raise Refused("cannot launch for another installation", Reason.PROVIDER_REFUSED)
        if not type_matches(name, request.instance_types):
            patterns = " ".join(request.instance_types)
            raise Refused(
                f"cannot launch: this machine offers {name}, which none of the patterns {patterns!r} allows",
                Reason.PROVIDER_REFUSED,
            )
        return Grant(
            token=request.token,
            installation_id=request.installation_id,
            fingerprint=request.fingerprint,
            count=request.count,
            granted=request.count,
            instance_type=name,
            usage_class=request.usage_class.value,
            at=self.now(),
        )


def machine(slot: Slot, state: str) -> Machine:
    """Return a slot as a machine. `state` is a word of muster.slots.states."""
    return Machine(
        id=slot.machine_id,
        installation_id=slot.grant.installation_id,
        token=slot.grant.token,
        instance_type=slot.grant.instance_type,
        usage_class=UsageClass(slot.grant.usage_class),
        state=MachineState(state),
    )
