"""The NodeProvider of this machine: answers from what is on disk and in the kernel.

Owns the verbs; every one may be cut off at any point, in this process or by the death of it, and the next
look is right. Blocking work runs in threads, so a call that its caller gave up goes on to its own end, as
a cloud's would. Remembers nothing but its own children, to reap them.
"""

import asyncio
import os
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from muster.domain.errors import Refused, Uncertain
from muster.domain.reasons import Reason
from muster.domain.template import LOCAL
from muster.ports.provider import LaunchAnswer, LaunchRequest, Machine, MachineState
from muster.providers.process import killing
from muster.providers.process.hearing import said
from muster.providers.process.launching import Launcher
from muster.providers.process.limits import NO_CGROUPS, Cgroups, find_cgroups
from muster.providers.process.looking import look
from muster.providers.process.pruning import Keeping, prune
from muster.providers.process.reporting import Report, report
from muster.providers.process.sandbox import Isolation, Sandbox, probe
from muster.providers.process.slots import Slot, Tree
from muster.providers.process.spawning import KEEPER, Spawner, Steps, no_steps

T = TypeVar("T")
AGENT = Path(__file__).parents[2] / "agent" / "agent.py"
CONSOLE_LIMIT = 1 << 20
"""Bytes per file of a node's console, of which there are two: room for any stack trace, not for a flood."""


class ProcessProvider:
    name = LOCAL
    visibility_window = 0.0
    call_timeout = 30.0

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
        """`root` is a directory inside the data directory, which sandboxes hide, with HOME and `hidden`."""
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

    # --- the port ---------------------------------------------------------------------------------

    async def launch(self, request: LaunchRequest) -> LaunchAnswer:
        return await self._do(lambda: self._launch(request))

    async def find(self, token: str) -> Sequence[Machine]:
        return await self._do(lambda: self._find(token))

    async def list(self) -> AsyncIterator[Machine]:
        for machine in await self._do(self._list):
            yield machine

    async def describe(self, machine_ids: Sequence[str]) -> Mapping[str, Machine]:
        asked = tuple(machine_ids)
        return await self._do(lambda: {machine.id: machine for machine in self._look(self._slots(asked))})

    async def console(self, machine_id: str, *, lines: int) -> str | None:
        return await self._do(lambda: self._console(machine_id, lines))

    async def terminate(self, machine_ids: Sequence[str]) -> None:
        asked = tuple(machine_ids)
        await self._do(lambda: self._terminate(asked))

    # --- for people -------------------------------------------------------------------------------

    async def report(self) -> Report:
        """What isolation and limits are in force; its `notice` belongs into the log at start."""
        return await asyncio.to_thread(self._report)

    # --- in a thread ------------------------------------------------------------------------------

    async def _do(self, act: Callable[[], T]) -> T:
        return await asyncio.to_thread(self._translated, act)

    def _translated(self, act: Callable[[], T]) -> T:
        self._reap()
        try:
            return act()
        except OSError as error:
            raise Uncertain(f"cannot tell how the machines are: {error}") from error
        finally:
            self._reap()

    def _launch(self, request: LaunchRequest) -> LaunchAnswer:
        return self._launcher.launch(request, self._spawner(), self._children.append)

    def _find(self, token: str) -> Sequence[Machine]:
        directory = self._tree.directory(token)
        grant = self._tree.grant(directory)
        slots = () if grant is None else self._tree.slots(directory, grant)
        return [machine for machine in self._look(slots) if machine.state is not MachineState.GONE]

    def _list(self) -> Sequence[Machine]:
        seen = self._look(tuple(self._tree.all_slots()))
        with self._launcher.launching(0.0) as mine:
            if mine:
                prune(self._tree, self._keeping, now=self._now())
        return [machine for machine in seen if machine.state is not MachineState.GONE]

    def _terminate(self, machine_ids: Sequence[str]) -> None:
        slots = self._slots(machine_ids)
        for slot in slots:
            if slot.started and not slot.gone:
                killing.ask(slot, now=self._now())
        self._look(slots)

    def _console(self, machine_id: str, lines: int) -> str | None:
        slot = self._tree.slot(machine_id)
        return None if slot is None else said(slot, lines)

    def _look(self, slots: Sequence[Slot]) -> Sequence[Machine]:
        return [machine for _, machine in look(slots, grace=self._grace, now=self._now())]

    def _slots(self, machine_ids: Sequence[str]) -> Sequence[Slot]:
        found = (self._tree.slot(machine_id) for machine_id in dict.fromkeys(machine_ids))
        return [slot for slot in found if slot is not None]

    def _reap(self) -> None:
        """Keepers that we started are our children; those of an earlier server are init's."""
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

    def _spawner(self) -> Spawner:
        sandbox, cgroups = self._prepared()
        if isinstance(sandbox, str) and self._isolation is Isolation.SANDBOX:
            raise Refused(self._report().notice, Reason.PROVIDER_REFUSED)
        return Spawner(
            python=self._python,
            agent=self._agent,
            servers=self._servers,
            grace=self._grace,
            dead_man=self._dead_man,
            console_limit=self._console_limit,
            sandbox=sandbox if isinstance(sandbox, Sandbox) else None,
            cgroups=cgroups,
            keeper=self._keeper,
            on_step=self._on_step,
        )
