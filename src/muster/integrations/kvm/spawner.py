"""Start the keeper of one microVM in a slot that was never started.

Owns the plan that the keeper follows. The secret goes through a pipe, to QEMU and into the guest, and
nowhere else: no command line, no environment, no file.
"""

import hashlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

import muster.slots
from muster.domain.serialization import Plain
from muster.domain.template import ResourceClass
from muster.integrations.kvm import qemu
from muster.integrations.kvm.tables import Accelerator, KvmSpec
from muster.slot_provider.provider import CONSOLE_LIMIT
from muster.slots.limits import Cgroups, rlimits
from muster.slots.processes import MARKER, boot_id
from muster.slots.spawn import spawn
from muster.slots.tree import Slot, Started

KEEPER = Path(muster.slots.__file__).with_name("keeper.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawner:
    python: str
    qemu: str
    accelerator: Accelerator
    spec: KvmSpec
    script: str
    grace: float
    cgroups: Cgroups

    def on_step(self, step: str) -> None:
        """Ignore the step."""

    def start(self, slot: Slot, size: ResourceClass, *, now: float) -> int:
        lock = slot.make()
        try:
            start = slot.path / "start"
            start.write_text(self.script, encoding="utf-8")
            secret = secrets.token_urlsafe(32)
            limited = qemu.host_size(size, self.accelerator)
            group = self.cgroups.make(slot.machine_id, limited)
            record = Started(
                machine_id=slot.machine_id,
                marker=f"{slot.machine_id}:{secrets.token_hex(8)}",
                secret_sha256=hashlib.sha256(secret.encode()).hexdigest(),
                boot_id=boot_id(),
                at=now,
                isolation=self.accelerator.value,
                limits=list(self.cgroups.words(limited)),
                cgroup="" if group is None else str(group),
            )
            user = qemu.user_of(slot.machine_id)
            # QEMU keeps what the guest writes to its disk in a file without a name, in TMPDIR.
            environment = {"PATH": os.defpath, "TMPDIR": str(slot.tmp), MARKER: record.marker}
            plan: dict[str, Plain] = {
                "argv": qemu.command(self.qemu, self.accelerator, self.spec, size, start=start, user=user),
                "directory": str(slot.work),
                "environment": environment,
                "rlimits": rlimits(limited, memory_by_cgroup="memory" in self.cgroups.controllers),
                "cgroup": record.cgroup,
                "grace": self.grace,
                "sandboxed": False,
                "console_limit": CONSOLE_LIMIT,
            }
            slot.mark_started(record, plan)
            argv = [self.python, "-I", "-S", str(KEEPER), str(slot.path)]
            shown = f"{slot.machine_id}:{secret}"
            return spawn(argv, slot, lock=lock, secret=shown, environment=environment)
        finally:
            os.close(lock)
