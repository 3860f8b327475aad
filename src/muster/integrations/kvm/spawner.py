"""Start the keeper of one microVM in a slot that was never started.

Owns the plan that the keeper follows. The identity, with the secret, goes through the descriptor to QEMU and
into the guest, and nowhere else.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import muster.slots
from muster.domain.serialization import Plain
from muster.domain.template import ResourceClass
from muster.integrations.kvm.qemu import IDENTITY, Hardware, address_space, as_user_of, host_size
from muster.integrations.kvm.snapshots import Snapshot, identity, restoring
from muster.slot_provider.provider import CONSOLE_LIMIT
from muster.slots.limits import Cgroups, rlimits
from muster.slots.processes import MARKER
from muster.slots.spawn import Start
from muster.slots.tree import Slot

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
        with Start(slot) as start:
            (slot.path / "start").write_text(self.script, encoding="utf-8")
            if self.note:
                slot.console.write_text(f"muster: {self.note}\n", encoding="utf-8")
            limited = host_size(size, self.hardware.accelerator)
            group = self.cgroups.make(slot.machine_id, limited)
            # QEMU keeps what the guest writes to its disk in a file without a name, in TMPDIR.
            environment = {"PATH": os.defpath, "TMPDIR": str(slot.tmp), MARKER: start.marker}
            plan: dict[str, Plain] = {
                **self._machine(slot),
                "environment": environment,
                "rlimits": rlimits(
                    address_space(limited), memory_by_cgroup="memory" in self.cgroups.controllers
                ),
                "grace": self.grace,
                "sandboxed": False,
                "console_limit": CONSOLE_LIMIT,
            }
            isolation = self.hardware.accelerator.value
            start.mark(plan, at=now, isolation=isolation, limits=self.cgroups.words(limited), group=group)
            argv = [self.python, "-I", "-S", str(KEEPER), str(slot.path)]
            shown = identity(slot.machine_id, now=now, secret=start.secret).decode()
            return start.spawn(argv, environment, shown=shown, read_again=self.snapshot is not None)

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
