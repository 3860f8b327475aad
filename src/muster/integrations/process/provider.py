"""Nodes of this machine: each is an agent process, in a sandbox where there is one."""

import asyncio
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

from muster.domain.errors import Refused
from muster.domain.reasons import Reason
from muster.integrations.process.isolation_report import Report, report
from muster.integrations.process.probe import probe
from muster.integrations.process.sandbox import Isolation, Sandbox
from muster.integrations.process.spawner import KEEPER, Spawner, Steps, no_steps
from muster.integrations.process.tables import TEMPLATE, Demand, Home
from muster.ports.provider import LaunchRequest
from muster.slot_provider.provider import CONSOLE_LIMIT, SlotProvider
from muster.slots.limits import NO_CGROUPS, Cgroups, find_cgroups
from muster.slots.pruner import Keeping

AGENT = Path(__file__).parents[2] / "agent" / "agent.py"


class ProcessProvider(SlotProvider):
    name = "process"

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
        super().__init__(
            root,
            installation_id=installation_id,
            family="local",
            capacity=capacity,
            grace=grace,
            keeping=keeping,
            now=now,
        )
        # The real interpreter, not a virtual environment's: the agent needs nothing but the standard library.
        self._python = python or str(Path(sys.executable).resolve())
        self._agent = tuple(agent) if agent is not None else (self._python, str(AGENT))
        self._servers = tuple(servers)
        self._isolation = Isolation(isolation)
        self._dead_man = dead_man
        self._hidden = (self._tree.root, self._tree.root.parent, Path.home(), *hidden)
        self._use_cgroups = cgroups
        self._console_limit = console_limit
        self._keeper = keeper
        self._on_step = on_step
        self._preparing = threading.Lock()
        self._found: tuple[Sandbox | str, Cgroups] | None = None

    # --- for people -------------------------------------------------------------------------------

    async def report(self) -> Report:
        """Return what isolation and limits are in force; its `notice` belongs into the log at start."""
        return await asyncio.to_thread(self._report)

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

    def _starter(self, request: LaunchRequest) -> Spawner:
        template = request.template
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
