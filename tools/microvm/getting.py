"""Find QEMU, a kernel and what guests are made with, and get what is missing from Debian's archive.

QEMU is installed as a package. A kernel's package would change how the machine boots, so its files are
unpacked inside `.venv`, and never installed.
"""

import os
import platform
import re
import subprocess
import tempfile
from pathlib import Path
from shutil import which

from tools.progress import run

ROOT = Path(__file__).parents[2]
UNPACKED = ROOT / ".venv" / "microvm"
PROGRAMS = {"qemu-system-x86_64": "qemu-system-x86", "busybox": "busybox-static", "mkfs.ext4": "e2fsprogs"}
PROGRAMS |= {"cpio": "cpio", "qemu-img": "qemu-utils"}
KERNEL = "linux-image-cloud-amd64"
APT = ("apt-get", "-qq", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=120")
HINT = "run `make microvm` as root on Debian"
_SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def program(name: str) -> str | None:
    return which(name, path=_SYSTEM)


def kernel() -> Path | None:
    return next(iter(sorted((UNPACKED / "boot").glob("vmlinuz-*"))), None)


def missing() -> str | None:
    """Say why microVMs can't be run here; None if they can."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return "these tests run on Linux on x86-64 only"
    absent = [name for name in PROGRAMS if program(name) is None]
    if kernel() is None:
        absent.append("a kernel")
    return f"missing: {', '.join(absent)}; {HINT}" if absent else None


def main() -> int:
    """Get what is missing. Never a reason to fail: the tests that need it skip, and say why."""
    if missing() is None:
        return 0
    if platform.system() == "Linux" and not os.geteuid() and which("apt-get") is not None:
        os.environ["DEBIAN_FRONTEND"] = "noninteractive"
        _get() or _get(update=True)
    why = missing()
    if why is not None:
        print(f"note: the tests of microVMs will skip: {why}")
    return 0


def _get(*, update: bool = False) -> bool:
    if update:
        run("Reading Debian's list of packages", [*APT, "update"], quiet=True)
    packages = [package for name, package in PROGRAMS.items() if program(name) is None]
    if packages:
        run("Installing QEMU for the tests of microVMs", [*APT, "install", *packages], quiet=True)
    if kernel() is None:
        _unpack()
    return missing() is None


def _unpack() -> None:
    asked = subprocess.run(  # noqa: S603
        ["apt-cache", "depends", KERNEL],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"Depends: (linux-image-\S+)", asked.stdout)
    if found is None:
        return
    with tempfile.TemporaryDirectory() as directory:
        command = [*APT, "-o", "APT::Sandbox::User=root", "download", found[1]]
        run("Unpacking a kernel for the tests of microVMs", command, cwd=Path(directory), quiet=True)
        for package in sorted(Path(directory).glob("*.deb")):
            subprocess.run(["dpkg", "-x", str(package), str(UNPACKED)], check=False)  # noqa: S603, S607
