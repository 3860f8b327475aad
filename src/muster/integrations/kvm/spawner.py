"""Start the keeper of one microVM in a slot that was never started.

Owns the plan that the keeper follows. The identity, with the secret, goes through a descriptor to QEMU and
into the guest, and nowhere else: no command line, no environment, no disk.
"""

import hashlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

import muster.slots
from muster.domain.serialization import Plain
from muster.domain.template import ResourceClass
from muster.integrations.kvm.qemu import IDENTITY, Hardware, address_space, as_user_of, host_size
from muster.integrations.kvm.snapshots import Snapshot, identity, restoring
from muster.slot_provider.provider import CONSOLE_LIMIT
from muster.slots.limits import Cgroups, rlimits
from muster.slots.processes import MARKER, boot_id
from muster.slots.spawn import spawn
from muster.slots.tree import Slot, Started

KEEPER = Path(muster.slots.__file__).with_name("keeper.py")
NOT_RESTORED = "the snapshot could not be restored, so the machine boots"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawner:
    python: str
    hardware: Hardware
    snapshot: Snapshot | None
    note: str
    """What an operator should know of this boot: the first line of the console."""
    script: str
    grace: float
    cgroups: Cgroups

    def on_step(self, step: str) -> None:
        """Ignore the step."""

    def start(self, slot: Slot, size: ResourceClass, *, now: float) -> int:
        lock = slot.make()
        try:
            (slot.path / "start").write_text(self.script, encoding="utf-8")
            if self.note:
                slot.console.write_text(f"muster: {self.note}\n", encoding="utf-8")
            secret = secrets.token_urlsafe(32)
            limited = host_size(size, self.hardware.accelerator)
            group = self.cgroups.make(slot.machine_id, limited)
            record = Started(
                machine_id=slot.machine_id,
                marker=f"{slot.machine_id}:{secrets.token_hex(8)}",
                secret_sha256=hashlib.sha256(secret.encode()).hexdigest(),
                boot_id=boot_id(),
                at=now,
                isolation=self.hardware.accelerator.value,
                limits=list(self.cgroups.words(limited)),
                cgroup="" if group is None else str(group),
            )
            # QEMU keeps what the guest writes to its disk in a file without a name, in TMPDIR.
            environment = {"PATH": os.defpath, "TMPDIR": str(slot.tmp), MARKER: record.marker}
            plan: dict[str, Plain] = {
                **self._machine(slot),
                "directory": str(slot.work),
                "environment": environment,
                "rlimits": rlimits(
                    address_space(limited), memory_by_cgroup="memory" in self.cgroups.controllers
                ),
                "cgroup": record.cgroup,
                "grace": self.grace,
                "sandboxed": False,
                "console_limit": CONSOLE_LIMIT,
            }
            slot.mark_started(record, plan)
            argv = [self.python, "-I", "-S", str(KEEPER), str(slot.path)]
            shown = identity(slot.machine_id, now=now, secret=secret).decode()
            return spawn(
                argv,
                slot,
                lock=lock,
                secret=shown,
                environment=environment,
                read_again=self.snapshot is not None,
            )
        finally:
            os.close(lock)

    def _machine(self, slot: Slot) -> dict[str, Plain]:
        """Return the plan's words about QEMU: restore the snapshot if there is one, else boot."""
        boot = self._command(slot, self.hardware.disk)
        if self.snapshot is None:
            return {"argv": boot}
        return {
            "argv": [*self._command(slot, self.snapshot.disk), *restoring()],
            "input": str(self.snapshot.state),
            "fallback": {"argv": boot, "why": NOT_RESTORED, "note": str(self.snapshot.broken)},
        }

    def _command(self, slot: Slot, disk: str) -> list[Plain]:
        name, start = slot.machine_id, slot.path / "start"
        argv = self.hardware.command(name=name, disk=disk, start=start, identity=IDENTITY)
        return [*argv, *as_user_of(name)]
