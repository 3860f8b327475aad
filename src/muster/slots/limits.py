"""Limit what a node may use: rlimits always, a cgroup where one can be had.

This module owns the figures and the cgroup's files. Two limits are left out on purpose. RLIMIT_NPROC counts
all processes of the user, not of the node, and nothing for root; pids.max is the right one. RLIMIT_AS counts
address space that is only reserved, which many runtimes do by the gigabyte. RLIMIT_DATA counts what can be
written to, per process; memory.max counts the node.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    class Size(Protocol):
        @property
        def cpu(self) -> int: ...

        @property
        def memory_mib(self) -> int: ...


OPEN_FILES = 65536
PIDS = 4096
"""Enough for parallel builds, far too few for a fork bomb to hurt the machine."""
PERIOD = 100_000
"""Microseconds over which cpu.max is counted: the kernel's default."""
MIB = 1 << 20
CONTROLLERS = ("cpu", "memory", "pids")


def rlimits(size: Size, *, memory_by_cgroup: bool) -> dict[str, int]:
    """Return the limits by their names in the `resource` module."""
    limits = {"RLIMIT_CORE": 0, "RLIMIT_NOFILE": OPEN_FILES}
    if sys.platform == "linux" and not memory_by_cgroup:
        limits["RLIMIT_DATA"] = size.memory_mib * MIB
    return limits


@dataclass(frozen=True)
class Cgroups:
    """A cgroup of ours below which every node gets one; or none, and then why."""

    base: Path | None
    controllers: tuple[str, ...]
    missing: str
    """What is not limited, and why; empty if everything is."""

    def make(self, machine_id: str, size: Size) -> Path | None:
        """Create the node's cgroup with its limits set."""
        if self.base is None:
            return None
        group = self.base / machine_id
        if not self.base.is_dir():
            self.base.mkdir(exist_ok=True)
            _enabled(self.base.parent, self.base)
        group.mkdir(exist_ok=True)
        wanted = {
            "cpu": (("cpu.max", f"{size.cpu * PERIOD} {PERIOD}"),),
            "memory": (("memory.max", str(size.memory_mib * MIB)), ("memory.swap.max", "0")),
            "pids": (("pids.max", str(PIDS)),),
        }
        for controller in self.controllers:
            for name, value in wanted[controller]:
                # memory.swap.max is missing where the kernel doesn't account for swap.
                with suppress(FileNotFoundError):
                    _put(group / name, value)
        return group

    def words(self, size: Size) -> tuple[str, ...]:
        words = {
            "cpu": f"{size.cpu} processors",
            "memory": f"{size.memory_mib} MiB of memory",
            "pids": f"{PIDS} processes",
        }
        return tuple(words[controller] for controller in self.controllers)


NO_CGROUPS = Cgroups(base=None, controllers=(), missing="cgroups are switched off")


def find_cgroups(
    name: str, *, mounts: Path = Path("/proc/self/mountinfo"), own: Path = Path("/proc/self/cgroup")
) -> Cgroups:
    """Look for a cgroup v2 below our own that we may write to, and make ours, called `name`, there."""
    try:
        mount = _mount_point(mounts.read_text().splitlines())
        path = next((line[3:] for line in own.read_text().splitlines() if line.startswith("0::")), None)
    except OSError:
        mount, path = None, None
    if mount is None or path is None:
        return Cgroups(base=None, controllers=(), missing="this machine has no cgroup v2")
    parent = mount / path.lstrip("/")
    base = parent / name
    try:
        base.mkdir(exist_ok=True)
        enabled = _enabled(parent, base)
    except OSError as error:
        why = f"the cgroup {parent} cannot be divided ({error.strerror}): delegate one to the server"
        return Cgroups(base=None, controllers=(), missing=why)
    lacking = [controller for controller in CONTROLLERS if controller not in enabled]
    missing = f"the cgroup {parent} doesn't allow control of {', '.join(lacking)}" if lacking else ""
    return Cgroups(base=base, controllers=enabled, missing=missing)


def _enabled(parent: Path, base: Path) -> tuple[str, ...]:
    for group in (parent, base):
        for controller in CONTROLLERS:
            # Refused where the controller isn't there, or processes live beside the new cgroup.
            with suppress(OSError):
                _put(group / "cgroup.subtree_control", f"+{controller}")
    enabled = (base / "cgroup.subtree_control").read_text().split()
    return tuple(controller for controller in CONTROLLERS if controller in enabled)


def _mount_point(lines: Sequence[str]) -> Path | None:
    for line in lines:
        before, _, after = line.partition(" - ")
        if after.startswith("cgroup2 "):
            return Path(before.split()[4])
    return None


def empty(group: Path) -> bool:
    """Kill whatever is left in the cgroup and remove it; False if something is still there."""
    try:
        if any((group / "cgroup.procs").read_text().split()):
            _put(group / "cgroup.kill", "1")
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    with suppress(OSError):
        # The last one out: while other nodes live, the kernel refuses.
        group.parent.rmdir()
    return True


def _put(path: Path, value: str) -> None:
    """Write into a file that the kernel made; never create one."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)
