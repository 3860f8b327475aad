"""Start a keeper in a slot that was never started. Every step leaves a state that the next look understands.

    directory and lock made         never started: a repeat starts it
    started.json written            about to start: gone, unless a process holds the lock
    keeper spawned                  runs: the keeper holds the lock, whatever becomes of the server

This module owns the plan that a keeper follows and the descriptors it gets. The secret goes through a pipe
and nowhere else.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import muster.slots
from muster.domain.serialization import Plain
from muster.domain.template import ResourceClass
from muster.integrations.process.sandbox import NODE, Sandbox
from muster.slots.limits import Cgroups, rlimits
from muster.slots.processes import MARKER, boot_id
from muster.slots.spawn import SECRET_FD, spawn
from muster.slots.tree import Slot, Started

KEEPER = Path(muster.slots.__file__).with_name("keeper.py")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

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
        lock = slot.make()
        try:
            if self.sandbox is not None:
                self.sandbox.prepare(slot.path, slot.machine_id)
            self.on_step("locked")
            secret = secrets.token_urlsafe(32)
            group = self.cgroups.make(slot.machine_id, size)
            record = self._record(slot, size, group, secret, now)
            limits = rlimits(size, memory_by_cgroup="memory" in self.cgroups.controllers)
            environment = self._environment(slot, record.marker)
            plan: dict[str, Plain] = {
                "argv": self._argv(slot),
                "directory": str(slot.work),
                "environment": environment,
                "rlimits": limits,
                "cgroup": record.cgroup,
                "grace": self.grace,
                "sandboxed": self.sandbox is not None,
                "console_limit": self.console_limit,
            }
            slot.mark_started(record, plan)
            self.on_step("marked")
            argv = [self.python, "-I", "-S", str(self.keeper), str(slot.path)]
            pid = spawn(argv, slot, lock=lock, secret=secret, environment=environment)
            self.on_step("spawned")
            return pid
        finally:
            os.close(lock)

    def _record(
        self, slot: Slot, size: ResourceClass, group: Path | None, secret: str, now: float
    ) -> Started:
        return Started(
            machine_id=slot.machine_id,
            marker=f"{slot.machine_id}:{secrets.token_hex(8)}",
            secret_sha256=hashlib.sha256(secret.encode()).hexdigest(),
            boot_id=boot_id(),
            at=now,
            isolation="none" if self.sandbox is None else "sandbox",
            limits=list(self.cgroups.words(size)),
            cgroup="" if group is None else str(group),
        )

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
        """Return an environment without the server's variables. Muster's own Python comes first in PATH,
        because it works."""
        own = str(Path(self.python).resolve().parent)
        node = slot.work if self.sandbox is None else NODE
        environment = {
            "PATH": SYSTEM_PATH if own in SYSTEM_PATH.split(":") else f"{own}:{SYSTEM_PATH}",
            "LANG": "C.UTF-8",
            "TZ": os.environ.get("TZ", "UTC"),
            "HOME": str(node),
            MARKER: marker,
        }
        # A job in a sandbox can write to nothing but what its assignment is given.
        wiped = (node, node / "home", node / "bin", slot.tmp) if self.sandbox is None else (node / "work",)
        environment["MUSTER_WIPE"] = "\n".join(map(str, wiped))
        if self.sandbox is None:
            environment["TMPDIR"] = str(slot.tmp)
        return environment
