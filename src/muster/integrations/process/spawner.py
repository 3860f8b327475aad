"""Start the keeper of a node on this machine, in a slot that was never started (see `muster.slots.spawn`).

This module owns the plan that the keeper follows.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import muster.slots
from muster.domain.serialization import Plain
from muster.domain.template import ResourceClass
from muster.integrations.process.sandbox import NODE, Sandbox
from muster.slots.limits import Cgroups, rlimits
from muster.slots.spawn import SECRET_FD, Start, node_environment, unwrapped_environment
from muster.slots.tree import Slot

KEEPER = Path(muster.slots.__file__).with_name("keeper.py")

Steps = Callable[[str], None]
"""Told after each step that changed something."""


def no_steps(step: str) -> None:
    """Ignore the step; the default listener."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawner:
    python: str
    agent: tuple[str, ...]
    """The agent's command line, up to its verb."""
    servers: tuple[str, ...]
    grace: float
    dead_man: float | None
    console_limit: int
    sandbox: Sandbox | None
    overlay: bool
    """Whether jobs may write to MUSTER_HOME, as far as they see."""
    cgroups: Cgroups
    keeper: Path = KEEPER
    on_step: Steps = no_steps

    def start(self, slot: Slot, size: ResourceClass, *, now: float) -> int:
        """Start a slot that was never started; the keeper's pid, which is a child of this process."""
        with Start(slot) as start:
            if self.sandbox is not None:
                self.sandbox.prepare(slot.path, slot.machine_id)
            self.on_step("locked")
            group = self.cgroups.make(slot.machine_id, size)
            environment = self._environment(slot, start.marker)
            plan: dict[str, Plain] = {
                "argv": self._argv(slot),
                "environment": environment,
                "rlimits": rlimits(size, memory_by_cgroup="memory" in self.cgroups.controllers),
                "grace": self.grace,
                "sandboxed": self.sandbox is not None,
                "console_limit": self.console_limit,
            }
            isolation = "none" if self.sandbox is None else "sandbox"
            start.mark(plan, at=now, isolation=isolation, limits=self.cgroups.words(size), group=group)
            self.on_step("marked")
            argv = [self.python, "-I", "-S", str(self.keeper), str(slot.path)]
            pid = start.spawn(argv, environment)
            self.on_step("spawned")
            return pid

    def _argv(self, slot: Slot) -> list[str]:
        directory = slot.work if self.sandbox is None else NODE
        argv = [*self.agent, "run"]
        # Each node begins with another of the servers, so that they share the nodes.
        first = int(hashlib.sha256(slot.machine_id.encode()).hexdigest(), 16) % len(self.servers)
        for server in (*self.servers[first:], *self.servers[:first]):
            argv += ["--server", server]
        argv += ["--dir", str(directory), "--secret-fd", str(SECRET_FD)]
        # The network is the host's: what comes in there tells nothing of this node's boot.
        argv += ["--proof-prefix", f"process:{slot.machine_id}:", "--shared-net"]
        if self.dead_man is not None:
            argv += ["--dead-man", f"{self.dead_man:g}"]
        if self.sandbox is None:
            return argv
        argv += ["--wrap", json.dumps(self.sandbox.job(slot.machine_id, overlay=self.overlay))]
        return self.sandbox.wrap(argv, place=slot.path, machine_id=slot.machine_id)

    def _environment(self, slot: Slot, marker: str) -> dict[str, str]:
        if self.sandbox is None:
            return unwrapped_environment(slot, self.python, marker)
        # A job in a sandbox can write to nothing but what its assignment is given.
        return node_environment(self.python, NODE, (NODE / "work",), marker)
