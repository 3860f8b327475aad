"""MicroVMs of this machine as nodes. `muster.slot_provider` answers; this module says how one is started."""

import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from shutil import which

import muster.agent
from muster.agent.machine_script import machine_script, self_extracting
from muster.agent.minifier import bare
from muster.domain.errors import Refused
from muster.domain.reasons import Reason
from muster.domain.template import TemplateSpec
from muster.integrations.kvm import guest_identity
from muster.integrations.kvm.accelerators import version
from muster.integrations.kvm.qemu import Hardware, reachable
from muster.integrations.kvm.snapshots import Recipe, Snapshot, Snapshots, snapshots_of
from muster.integrations.kvm.spawner import Spawner
from muster.integrations.kvm.tables import KVM, TEMPLATE, Accelerator
from muster.ports.provider import LaunchRequest
from muster.slot_provider.provider import SlotProvider
from muster.slots.limits import find_cgroups

_HEAD = """\
#!/bin/bash
export MUSTER_MACHINE_DIR=/var/lib/muster
export MUSTER_POWEROFF='poweroff -f || busybox poweroff -f || echo o >/proc/sysrq-trigger'
(: >>/dev/console) 2>/dev/null && exec >>/dev/console 2>&1
exec 5</sys/firmware/qemu_fw_cfg/by_name/opt/muster/secret/raw
mount -t tmpfs -o mode=0700 muster /sys/firmware/qemu_fw_cfg
[ -e /dev/pts/ptmx ] || { mkdir -p /dev/pts && mount -t devpts -o mode=620,ptmxmode=666 devpts /dev/pts; }
I=$(cat <<'MUSTER_IDENTITY'
@READER@MUSTER_IDENTITY
)
exec 3< <(python3 -I -S -c "$I" <&5)
exec 5<&-
"""
# Once: Python's parser fails if several threads use it at the same time.
_READER = bare(Path(guest_identity.__file__).read_text(encoding="utf-8"))


def start_script(agent: str, servers: Sequence[str], dead_man: float) -> str:
    identity = ("--secret-fd", "3", "--proof-prefix", f"{KVM}:")
    script = machine_script(agent, servers=servers, dead_man=dead_man, identity=identity)
    # Packed: a guest reads its firmware files slowly, and the more so the larger they are.
    return self_extracting(_HEAD.replace("@READER@", _READER) + script)


logger = logging.getLogger(__name__)


class KvmProvider(SlotProvider):
    name = KVM

    def __init__(
        self,
        root: Path,
        *,
        installation_id: str,
        servers: Sequence[str],
        capacity: int,
        qemu: str,
        accelerator: Accelerator,
        dead_man: Callable[[TemplateSpec], float],
        grace: float = 10.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(
            root, installation_id=installation_id, family="microvm", capacity=capacity, grace=grace, now=now
        )
        self._servers = reachable(servers)
        # Once: Python's parser, which packs it, fails if several threads use it at the same time.
        self._agent = muster.agent.source()
        self._qemu = qemu
        self._accelerator = accelerator
        self._dead_man = dead_man
        self._snapshots = Snapshots(snapshots_of(self._tree.root))

    def starts_with(self, template: TemplateSpec) -> str:
        """Return the script that each guest of the template runs."""
        return start_script(self._agent, self._servers, self._dead_man(template))

    def _starter(self, request: LaunchRequest) -> Spawner:
        spec = TEMPLATE.of(request.template)
        program = which(self._qemu)
        if program is None:
            raise Refused(
                f"cannot launch: {self._qemu} is not installed; get it with: apt-get install qemu-system-x86",
                Reason.PROVIDER_REFUSED,
            )
        for path in spec.files:
            if not os.access(path, os.R_OK) or not Path(path).is_file():
                raise Refused(
                    f"cannot launch: {path} of template {request.template.name} is no file that the server"
                    " can read",
                    Reason.PROVIDER_REFUSED,
                )
        hardware = Hardware(
            qemu=program, accelerator=self._accelerator, spec=spec, size=request.resource_class
        )
        script = self.starts_with(request.template)
        snapshot, note = self._snapshot(request.template.name, hardware, script)
        return Spawner(
            python=str(Path(sys.executable).resolve()),
            hardware=hardware,
            snapshot=snapshot,
            note=note,
            script=script,
            grace=self._grace,
            cgroups=find_cgroups(f"muster-{sha256(str(self._tree.root).encode()).hexdigest()[:12]}"),
        )

    def _snapshot(self, template: str, hardware: Hardware, script: str) -> tuple[Snapshot | None, str]:
        """Return the snapshot to start from, or what an operator should know; let one be made for the next
        launch."""
        if not hardware.spec.snapshot:
            return None, ""
        try:
            recipe = Recipe(
                template=template, hardware=hardware, version=version(hardware.qemu), script=script
            )
            found = self._snapshots.find(recipe, now=self._now())
            if found is not None:
                return found, ""
            why = self._snapshots.why_not(recipe)
            maker = self._snapshots.make(recipe, now=self._now())
        except OSError as error:
            why, maker = str(error), None
        if maker is not None:
            self._children.append(maker)
        if not why:
            return None, ""
        note = f"there is no snapshot of template {template}, so its machines boot: {why}"
        logger.warning(note, extra={"provider": self.name})
        return None, note
