"""A node as a microVM, restored from a snapshot and booted, beside bare QEMU with the same kernel and image.

Bare QEMU boots to the first line of the image's own script and powers off. The nodes also start an agent,
join, boot and attach. All of it is emulated, so that it runs where KVM doesn't.
"""

import asyncio
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from bench import Figure
from bench.cold_node import PATIENCE, provisioned
from bench.server_process import Server, data_directory, served
from muster.client import SyncClient, calls
from muster.domain.template import ResourceClass, Reuse, TemplateSpec
from muster.integrations.kvm.qemu import Hardware
from muster.integrations.kvm.snapshots import reports, snapshots_of
from muster.integrations.kvm.tables import KVM, QEMU, TEMPLATE, Accelerator
from tests.e2e.site import until
from tools.microvm import getting, guest

ROUNDS = 5
RESTORED, BOOTED = "restored", "booted"


async def measure() -> Sequence[Figure]:
    why = getting.missing()
    if why is not None:
        print(f"cannot measure microVMs: {why}")
        return []
    with data_directory() as root:
        settings = root / "muster.toml"
        machines = root / "machines"
        settings.write_text(
            f'[process]\ncapacity = 0\n[kvm]\ncapacity = 4\naccelerator = "tcg"\ndirectory = "{machines}"\n'
        )
        async with served(root / "data", config=settings, capacity=0) as server:
            return await asyncio.to_thread(_measured, server, root)


def _measured(server: Server, root: Path) -> Sequence[Figure]:
    took: dict[str, list[float]] = {"bare": [], RESTORED: [], BOOTED: []}
    with SyncClient(server.url, server.admin) as client:
        for name in (RESTORED, BOOTED):
            client.send(calls.apply(_template(name)))
        provisioned(client, RESTORED, "first")
        until(lambda: list(reports(snapshots_of(root / "machines"))), "the snapshot", PATIENCE)
        for turn in range(ROUNDS):
            took["bare"].append(_boot(root))
            for name in (RESTORED, BOOTED):
                took[name].append(provisioned(client, name, f"{name}-{turn}"))
    return [
        Figure(
            name=f"a microVM node, {name}",
            value=1e3 * median(took[name]),
            unit="ms",
            floor=1e3 * median(took["bare"]),
            lower_is_better=True,
            note=f"median of {ROUNDS}, emulated; floor: bare QEMU boots the same image and powers off",
        )
        for name in (RESTORED, BOOTED)
    ]


def _template(name: str) -> TemplateSpec:
    table = {**_files(), "snapshot": name == RESTORED}
    return TemplateSpec(
        name=name, provider=KVM, resource_class="small", reuse=Reuse.NEVER, tables={KVM: table}
    )


def _files() -> dict[str, str]:
    return {"kernel": str(getting.kernel()), "initrd": str(guest.initramfs()), "root": str(guest.root())}


def _boot(root: Path) -> float:
    start, identity = root / "start", root / "identity"
    start.write_text("poweroff -f\n")
    identity.write_text("{}")
    size = ResourceClass(name="small", cpu=1, memory_mib=1024)
    spec = TEMPLATE.of(_template(BOOTED))
    hardware = Hardware(qemu=QEMU, accelerator=Accelerator.TCG, spec=spec, size=size)
    argv = hardware.command(name="bare", disk=hardware.disk, start=start, identity=identity)
    began = time.perf_counter()
    subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True, timeout=PATIENCE)
    return time.perf_counter() - began
