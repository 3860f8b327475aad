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
WORKERS_MIB = 512
"""Stacks of QEMU's threads for disks: 64 of 8 MiB. They are address space, of which little becomes memory."""
SANDBOX = "on,obsolete=deny,spawn=deny,resourcecontrol=deny"
IDENTITY = f"/dev/fd/{SECRET_FD}"
"""Where QEMU reads the identity that the keeper passes on."""
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


def address_space(size: HostSize) -> HostSize:
    """Return what QEMU may map, for hosts that can't limit what it uses."""
    return HostSize(cpu=size.cpu, memory_mib=size.memory_mib + WORKERS_MIB)


def board(accelerator: Accelerator) -> list[str]:
    """Return the options that choose accelerator, machine and processor."""
    if accelerator is Accelerator.KVM:
        return ["-accel", "kvm", "-M", "microvm", "-cpu", "host"]
    return ["-accel", f"tcg,tb-size={TRANSLATIONS_MIB}", "-M", "q35", "-cpu", "max"]


def bare(qemu: str, accelerator: Accelerator) -> list[str]:
    """Return a machine without any device."""
    return [qemu, *board(accelerator), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """What all machines of a template and class have in common, and what a snapshot depends on."""

    qemu: str
    accelerator: Accelerator
    spec: KvmSpec
    size: ResourceClass

    @property
    def disk(self) -> str:
        """Return the drive of a machine that boots: the image, with the machine's own writes on top."""
        return f"file={self.spec.root},format={self.spec.format.value},snapshot=on"

    def command(self, *, name: str, disk: str, start: Path, identity: Path | str) -> list[str]:
        """Return the command line of the machine with this name, which its MAC address comes from."""
        bus = "device" if self.accelerator is Accelerator.KVM else "pci"
        argv = bare(self.qemu, self.accelerator)
        argv += ["-smp", str(self.size.cpu), "-m", f"{self.size.memory_mib}M"]
        argv += ["-serial", "stdio", "-sandbox", SANDBOX]
        argv += ["-kernel", self.spec.kernel, "-append", f"{CONSOLE} {self.spec.cmdline}".strip()]
        argv += ["-initrd", self.spec.initrd] if self.spec.initrd else []
        argv += ["-drive", f"{disk},if=none,id=root", "-device", f"virtio-blk-{bus},drive=root"]
        argv += ["-netdev", "user,id=net", "-device", f"virtio-net-{bus},netdev=net,mac={mac_of(name)}"]
        argv += ["-device", f"virtio-rng-{bus}"]
        argv += ["-fw_cfg", f"name=opt/muster/start,file={start}"]
        return [*argv, "-fw_cfg", f"name=opt/muster/secret,file={identity}"]


def mac_of(name: str) -> str:
    """Return a MAC address of the machine's own, in the range that belongs to QEMU."""
    return "52:54:00:" + sha256(name.encode()).digest()[:3].hex(":")


def as_user_of(machine_id: str) -> list[str]:
    """Return the options for a user of the machine's own; none if this process can't change users."""
    if os.geteuid():
        return []
    user = FIRST_USER + int(sha256(machine_id.encode()).hexdigest()[:6], 16)
    return ["-runas", f"{user}:{user}"]


def reachable(servers: Sequence[str]) -> tuple[str, ...]:
    """Return the servers as guests reach them: a loopback address is the guest's own."""
    return tuple(map(_from_guest, servers))


def _from_guest(server: str) -> str:
    parts = urlsplit(server)
    host = parts.hostname or ""
    if host not in ("localhost", "::1") and not host.startswith("127."):
        return server
    return parts._replace(netloc=HOST if parts.port is None else f"{HOST}:{parts.port}").geturl()
