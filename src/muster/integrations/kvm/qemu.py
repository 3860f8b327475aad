"""Write the command line of one machine. Pure: it looks at nothing.

With KVM the machine is a `microvm`: no firmware, no PCI. Under emulation it is a `q35`, because a microvm has
no timer from which a kernel can tell the time there (ADR 54). The guest sees the same disk, network card,
console and files either way; only the bus differs.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

from muster.domain.template import ResourceClass
from muster.integrations.kvm.tables import Accelerator, KvmSpec
from muster.slots.spawn import SECRET_FD

CONSOLE = "console=ttyS0 reboot=t panic=-1"
"""A kernel that panics restarts, and a restart is the end of the machine."""
HOST = "10.0.2.2"
"""How a guest names the machine that it runs on, loopback included."""
OVERHEAD_MIB = 256
"""What QEMU itself may take beside the guest's memory."""
TRANSLATIONS_MIB = 128
"""Translated code under emulation; QEMU's default is a gigabyte."""
SANDBOX = "on,obsolete=deny,spawn=deny,resourcecontrol=deny"
FIRST_USER = 0x70000000
"""Users of machines, where the server is root: above those of accounts and containers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSize:
    """What the QEMU process of a machine may use. Implements muster.slots.limits.Size."""

    cpu: int
    memory_mib: int


def host_size(size: ResourceClass, accelerator: Accelerator) -> HostSize:
    extra = OVERHEAD_MIB + (TRANSLATIONS_MIB if accelerator is Accelerator.TCG else 0)
    return HostSize(cpu=size.cpu, memory_mib=size.memory_mib + extra)


def board(accelerator: Accelerator) -> list[str]:
    """Return the options that choose accelerator, machine and processor."""
    if accelerator is Accelerator.KVM:
        return ["-accel", "kvm", "-M", "microvm", "-cpu", "host"]
    return ["-accel", f"tcg,tb-size={TRANSLATIONS_MIB}", "-M", "q35", "-cpu", "max"]


def bare(qemu: str, accelerator: Accelerator) -> list[str]:
    """Return a machine without any device."""
    return [qemu, *board(accelerator), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]


def command(
    qemu: str, accelerator: Accelerator, spec: KvmSpec, size: ResourceClass, *, start: Path, user: int | None
) -> list[str]:
    """Return the whole command line. The secret is read from the pipe that the keeper passes on."""
    bus = "device" if accelerator is Accelerator.KVM else "pci"
    argv = bare(qemu, accelerator)
    argv += ["-smp", str(size.cpu), "-m", f"{size.memory_mib}M", "-serial", "stdio", "-sandbox", SANDBOX]
    argv += ["-kernel", spec.kernel, "-append", f"{CONSOLE} {spec.cmdline}".strip()]
    argv += ["-initrd", spec.initrd] if spec.initrd else []
    drive = f"file={spec.root},format={spec.format.value},if=none,id=root,snapshot=on"
    argv += ["-drive", drive, "-device", f"virtio-blk-{bus},drive=root"]
    argv += ["-netdev", "user,id=net", "-device", f"virtio-net-{bus},netdev=net"]
    argv += ["-device", f"virtio-rng-{bus}"]
    argv += ["-fw_cfg", f"name=opt/muster/start,file={start}"]
    argv += ["-fw_cfg", f"name=opt/muster/secret,file=/dev/fd/{SECRET_FD}"]
    return [*argv, "-runas", f"{user}:{user}"] if user is not None else argv


def user_of(machine_id: str) -> int | None:
    """Return a user of the machine's own; None if this process can't change users."""
    if os.geteuid():
        return None
    return FIRST_USER + int(sha256(machine_id.encode()).hexdigest()[:6], 16)


def reachable(servers: Sequence[str]) -> tuple[str, ...]:
    """Return the servers as guests reach them: a loopback address is the guest's own."""
    return tuple(map(_from_guest, servers))


def _from_guest(server: str) -> str:
    parts = urlsplit(server)
    host = parts.hostname or ""
    if host not in ("localhost", "::1") and not host.startswith("127."):
        return server
    return parts._replace(netloc=HOST if parts.port is None else f"{HOST}:{parts.port}").geturl()
