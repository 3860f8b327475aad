"""MicroVMs of this machine as nodes. `muster.slot_provider` answers; this module says how one is started."""

import os
import sys
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from shutil import which

import muster.agent
from muster.domain.errors import Refused
from muster.domain.reasons import Reason
from muster.domain.template import TemplateSpec
from muster.integrations.kvm.qemu import reachable
from muster.integrations.kvm.spawner import Spawner
from muster.integrations.kvm.start import start_script
from muster.integrations.kvm.tables import KVM, TEMPLATE, Accelerator
from muster.ports.provider import LaunchRequest
from muster.slot_provider.provider import SlotProvider
from muster.slots.limits import find_cgroups


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
    ) -> None:
        super().__init__(
            root, installation_id=installation_id, family="microvm", capacity=capacity, grace=grace
        )
        self._servers = reachable(servers)
        # Once: Python's parser, which packs it, fails if several threads use it at the same time.
        self._agent = muster.agent.source()
        self._qemu = qemu
        self._accelerator = accelerator
        self._dead_man = dead_man

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
        return Spawner(
            python=str(Path(sys.executable).resolve()),
            qemu=program,
            accelerator=self._accelerator,
            spec=spec,
            script=self.starts_with(request.template),
            grace=self._grace,
            cgroups=find_cgroups(f"muster-{sha256(str(self._tree.root).encode()).hexdigest()[:12]}"),
        )
