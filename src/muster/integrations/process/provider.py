"""The NodeProvider of this machine: answers from what is on disk and in the kernel.

Every verb may be cut off at any point, in this process or by its death, and the next look is right. Blocking
work runs in threads. So a call that its caller gave up runs to its end, as a cloud's would. The provider
remembers only its own children, to reap them.
"""

import asyncio
import logging
import os
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from muster.agent.agent import wipe
from muster.domain.errors import Refused, Uncertain
from muster.domain.reasons import Reason
from muster.domain.template import TemplateSpec
from muster.integrations.process.isolation_report import Report, report
from muster.integrations.process.launcher import Launcher, machine
from muster.integrations.process.probe import probe
from muster.integrations.process.sandbox import Isolation, Sandbox
from muster.integrations.process.spawner import KEEPER, Spawner, Steps, no_steps
from muster.integrations.process.tables import TEMPLATE, Demand, Home
from muster.ports.provider import LaunchAnswer, LaunchRequest, Machine, MachineState
from muster.slots import termination
from muster.slots.console import keepers_last_word, said
from muster.slots.limits import NO_CGROUPS, Cgroups, find_cgroups
from muster.slots.pruner import Keeping, prune
from muster.slots.states import GONE, look
from muster.slots.tree import Slot, Tree

logger = logging.getLogger(__name__)

T = TypeVar("T")
AGENT = Path(__file__).parents[2] / "agent" / "agent.py"
WATCH_EVERY = 1.0
"""Seconds between looks at the locks of the living. What is promised is two; a look takes microseconds."""
CONSOLE_LIMIT = 1 << 20
"""Bytes per file of a node's console, of which there are two: room for any stack trace, not for a flood."""


class ProcessProvider:
    name = "process"
    visibility_window = 0.0
    call_timeout = 30.0
    makes_way = frozenset({Reason.CAPACITY})

    def __init__(
        self,
        root: Path,
        *,
        installation_id: str,
        servers: Sequence[str],
        capacity: int,
        isolation: Isolation = Isolation.AUTO,
        grace: float = 10.0,
        dead_man: float | None = None,
        python: str | None = None,
        agent: Sequence[str] | None = None,
        hidden: Sequence[Path] = (),
        cgroups: bool = True,
        keeping: Keeping | None = None,
        console_limit: int = CONSOLE_LIMIT,
        now: Callable[[], float] = time.time,
        keeper: Path = KEEPER,
        on_step: Steps = no_steps,
    ) -> None:
        """Set up the provider. `root` is a directory inside the data directory, which sandboxes hide, with
        HOME and `hidden`."""
        self._tree = Tree(root.absolute(), installation_id)
        self._launcher = Launcher(tree=self._tree, capacity=capacity, now=now)
        # The real interpreter, not a virtual environment's: the agent needs nothing but the standard library.
        self._python = python or str(Path(sys.executable).resolve())
        self._agent = tuple(agent) if agent is not None else (self._python, str(AGENT))
        self._servers = tuple(servers)
        self._isolation = Isolation(isolation)
        self._grace = grace
        self._dead_man = dead_man
        self._hidden = (self._tree.root, self._tree.root.parent, Path.home(), *hidden)
        self._use_cgroups = cgroups
        self._keeping = keeping or Keeping()
        self._console_limit = console_limit
        self._now = now
        self._keeper = keeper
        self._on_step = on_step
        self._preparing = threading.Lock()
        self._found: tuple[Sandbox | str, Cgroups] | None = None
        self._children: list[int] = []
        self._living: dict[str, Slot] = {}
        """Those whose end `ended` will tell."""
        self._looked = False

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
        """Return endings by the keepers' locks, for muster.ports.provider.Endings."""
        while True:
            found = await self._do(self._newly_ended)
            if found:
                return found
            await asyncio.sleep(WATCH_EVERY)

    # --- for people -------------------------------------------------------------------------------

    async def report(self) -> Report:
        """Return what isolation and limits are in force; its `notice` belongs into the log at start."""
        return await asyncio.to_thread(self._report)

    # --- in a thread ------------------------------------------------------------------------------

    async def _do(self, act: Callable[[], T]) -> T:
        return await asyncio.to_thread(self._translated, act)

    def _translated(self, act: Callable[[], T]) -> T:
        self._reap()
        try:
            return act()
        except OSError as error:
            raise Uncertain(f"cannot read the state of the machines: {error}") from error
        finally:
            self._reap()

    def _launch(self, request: LaunchRequest) -> LaunchAnswer:
        try:
            return self._launcher.launch(request, self._spawner(request.template), self._children.append)
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

    def _reap(self) -> None:
        """Reap the keepers that this process started; those of an earlier server are init's children."""
        for pid in tuple(self._children):
            try:
                ended = os.waitpid(pid, os.WNOHANG)[0] == pid
            except ChildProcessError:
                ended = True
            if ended:
                with suppress(ValueError):
                    self._children.remove(pid)

    # --- what this machine can do -----------------------------------------------------------------

    def _prepared(self) -> tuple[Sandbox | str, Cgroups]:
        with self._preparing:
            if self._found is None:
                self._found = self._probe(), self._cgroups()
            return self._found

    def _probe(self) -> Sandbox | str:
        if self._isolation is Isolation.NONE:
            return "isolation is set to none"
        # Only what exists can be masked where it lies inside something that is shown.
        self._tree.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="muster-probe-") as scratch:
            hidden = [path for path in self._hidden if path != Path("/")]
            return probe(python=self._python, agent=self._agent, hidden=hidden, scratch=Path(scratch))

    def _cgroups(self) -> Cgroups:
        if not self._use_cgroups:
            return NO_CGROUPS
        return find_cgroups(f"muster-{sha256(str(self._tree.root).encode()).hexdigest()[:12]}")

    def _report(self) -> Report:
        sandbox, cgroups = self._prepared()
        return report(self._isolation, sandbox, cgroups, capacity=self._launcher.capacity)

    def _spawner(self, template: TemplateSpec) -> Spawner:
        sandbox, cgroups = self._prepared()
        report = self._report()
        asked = TEMPLATE.of(template)
        overlay = asked.home is Home.OVERLAY
        demanded = self._isolation is Isolation.SANDBOX or asked.isolation is Demand.SANDBOX
        if isinstance(sandbox, str) and demanded:
            raise Refused(f"{template.name} needs a sandbox: {report.notice}", Reason.PROVIDER_REFUSED)
        if overlay and report.no_overlay:
            raise Refused(f"{template.name} needs an overlay: {report.no_overlay}", Reason.PROVIDER_REFUSED)
        return Spawner(
            python=self._python,
            agent=self._agent,
            servers=self._servers,
            grace=self._grace,
            dead_man=self._dead_man,
            console_limit=self._console_limit,
            sandbox=sandbox if isinstance(sandbox, Sandbox) else None,
            overlay=overlay,
            cgroups=cgroups,
            keeper=self._keeper,
            on_step=self._on_step,
        )
