"""The NodeProvider of slots of this machine: answers from what is on disk and in the kernel.

Every verb may be cut off at any point, in this process or by its death, and the next look is right. Blocking
work runs in threads. So a call that its caller gave up runs to its end, as a cloud's would. The provider
remembers only its own children, to reap them.
"""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from muster.agent.agent import wipe
from muster.domain.access import check_secret, read_proof
from muster.domain.errors import Forbidden, Uncertain
from muster.domain.reasons import Reason
from muster.ports.identity import Identity
from muster.ports.provider import LaunchAnswer, LaunchRequest, Machine, MachineState
from muster.slot_provider.launcher import Launcher, Starter, machine
from muster.slots import termination
from muster.slots.console import keepers_last_word, said
from muster.slots.processes import reap
from muster.slots.pruner import Keeping, prune
from muster.slots.states import GONE, look
from muster.slots.tree import Slot, Tree

logger = logging.getLogger(__name__)

T = TypeVar("T")
WATCH_EVERY = 1.0
"""Seconds between looks at the locks of the living. What is promised is two; a look takes microseconds."""
CONSOLE_LIMIT = 1 << 20
"""Bytes per file of a node's console, of which there are two: room for any stack trace, not for a flood."""


class SlotProvider(ABC):
    """Subclasses say how a slot is started."""

    name: str
    visibility_window = 0.0
    call_timeout = 30.0
    makes_way = frozenset({Reason.CAPACITY})

    def __init__(
        self,
        root: Path,
        *,
        installation_id: str,
        family: str,
        capacity: int,
        grace: float,
        keeping: Keeping | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._tree = Tree(root.absolute(), installation_id)
        self._launcher = Launcher(family=family, tree=self._tree, capacity=capacity, now=now)
        self._grace = grace
        self._keeping = keeping or Keeping()
        self._now = now
        self._children: list[int] = []
        self._living: dict[str, Slot] = {}
        """Those whose end `ended` will tell."""
        self._looked = False

    @abstractmethod
    def _starter(self, request: LaunchRequest) -> Starter:
        """Return what starts the slots of this launch. Raises Refused if it can't be had here."""

    # --- the port ---------------------------------------------------------------------------------

    async def launch(self, request: LaunchRequest) -> LaunchAnswer:
        return await self._do(lambda: self._launch(request))

    async def find(self, token: str) -> Sequence[Machine]:
        return await self._do(lambda: self._find(token))

    async def list(self) -> AsyncIterator[Machine]:
        for each in await self._do(self._list):
            yield each

    async def describe(self, machine_ids: Sequence[str]) -> Mapping[str, Machine]:
        asked = tuple(machine_ids)
        return await self._do(lambda: {each.id: each for each in self._look(self._slots(asked))})

    async def console(self, machine_id: str, *, lines: int) -> str | None:
        return await self._do(lambda: self._console(machine_id, lines))

    async def terminate(self, machine_ids: Sequence[str]) -> None:
        asked = tuple(machine_ids)
        await self._do(lambda: self._terminate(asked))

    async def ended(self) -> Sequence[Machine]:
        """Return endings by the keepers' locks, for muster.ports.provider.EndingsSource."""
        while True:
            found = await self._do(self._newly_ended)
            if found:
                return found
            await asyncio.sleep(WATCH_EVERY)

    # --- in a thread ------------------------------------------------------------------------------

    async def _do(self, act: Callable[[], T]) -> T:
        return await asyncio.to_thread(self._translated, act)

    def _translated(self, act: Callable[[], T]) -> T:
        reap(self._children)
        try:
            return act()
        except OSError as error:
            raise Uncertain(f"cannot read the state of the machines: {error}") from error
        finally:
            reap(self._children)

    def _launch(self, request: LaunchRequest) -> LaunchAnswer:
        try:
            return self._launcher.launch(request, self._starter(request), self._children.append)
        finally:
            self._find(request.token)  # from now on, their end is told

    def _find(self, token: str) -> Sequence[Machine]:
        directory = self._tree.directory(token)
        grant = self._tree.grant(directory)
        slots = () if grant is None else self._tree.slots(directory, grant)
        return [each for each in self._look(slots) if each.state is not MachineState.GONE]

    def _list(self) -> Sequence[Machine]:
        seen = self._look(tuple(self._tree.all_slots()))
        with self._launcher.launching(0.0) as mine:
            if mine:
                try:
                    prune(self._tree, self._keeping, wipe, now=self._now())
                except OSError as error:
                    # What is left of the gone says nothing of those that live.
                    logger.warning("cannot prune", extra={"provider": self.name, "error": repr(error)})
        return [each for each in seen if each.state is not MachineState.GONE]

    def _terminate(self, machine_ids: Sequence[str]) -> None:
        slots = self._slots(machine_ids)
        for slot in slots:
            if slot.started and not slot.gone:
                termination.ask(slot, now=self._now())
        self._look(slots)

    def _console(self, machine_id: str, lines: int) -> str | None:
        slot = self._tree.slot(machine_id)
        return None if slot is None else said(slot, lines)

    def _look(self, slots: Sequence[Slot]) -> Sequence[Machine]:
        seen = look(slots, grace=self._grace, now=self._now())
        for slot, state in seen:
            if state != GONE:
                self._living[slot.machine_id] = slot
        return [machine(slot, state) for slot, state in seen]

    def _newly_ended(self) -> Sequence[Machine]:
        """Check only machines that were seen alive; `list` sees other servers' launches under this root."""
        if not self._looked:
            self._look(tuple(self._tree.all_slots()))
            self._looked = True
        unlocked = [slot for slot in tuple(self._living.values()) if not slot.locked()]
        gone = [each for each in self._look(unlocked) if each.state is MachineState.GONE]
        for each in gone:
            self._living.pop(each.id, None)
        words = {slot.machine_id: keepers_last_word(slot) for slot in unlocked}
        return [replace(each, why=words[each.id]) for each in gone]

    def _slots(self, machine_ids: Sequence[str]) -> Sequence[Slot]:
        found = (self._tree.slot(machine_id) for machine_id in dict.fromkeys(machine_ids))
        return [slot for slot in found if slot is not None]


class SlotVerifier:
    """Implements muster.ports.identity.IdentityVerifier."""

    def __init__(self, provider: str, root: Path, *, installation_id: str) -> None:
        self._provider = provider
        self._tree = Tree(root, installation_id)

    async def verify(self, proof: str) -> Identity:
        return await asyncio.to_thread(self._verify, proof)

    def _verify(self, proof: str) -> Identity:
        machine_id, secret = read_proof(proof, self._provider)
        slot = self._tree.slot(machine_id)
        record = None if slot is None or slot.gone else slot.record()
        if slot is None or record is None:
            raise Forbidden("cannot accept the proof: there is no such machine here")
        check_secret(secret, record.secret_sha256)
        if not slot.locked():
            raise Forbidden("cannot accept the proof: the machine has ended")
        return Identity(
            installation_id=slot.grant.installation_id,
            provider=self._provider,
            machine_id=machine_id,
            token=slot.grant.token,
        )
