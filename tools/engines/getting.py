"""Find the engines' programs, and get those that are missing from Debian's archive.

Podman is installed as a package: it starts nothing by itself. Docker's package would start a daemon that
changes the machine's network, so its files are unpacked inside `.venv`, and never installed.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tools.progress import run

ROOT = Path(__file__).parents[2]
UNPACKED = ROOT / ".venv" / "engines"
PACKAGES = {"podman": ("podman", "runc"), "dockerd": ("docker.io", "containerd", "runc", "tini")}
APT = ("apt-get", "-qq", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=120")
HINT = "run `make engines` as root on Debian, or install podman and docker"


def path() -> str:
    """Return a PATH that has what was unpacked."""
    own = [str(UNPACKED / "usr" / each) for each in ("sbin", "bin")]
    return ":".join([*own, os.environ.get("PATH", os.defpath)])


def missing(program: str) -> str | None:
    """Say why an engine can't be run here; None if it can."""
    if platform.system() != "Linux":
        return f"{program} runs on Linux only"
    if os.geteuid():
        return f"{program} needs root"
    if shutil.which(program, path=path()) is None:
        return f"{program} is not installed: {HINT}"
    return None


def main() -> int:
    """Get what is missing. Fails only where it should have worked: as root on Debian."""
    if platform.system() != "Linux" or os.geteuid() or shutil.which("apt-get") is None:
        for why in filter(None, map(missing, PACKAGES)):
            print(f"note: the tests of containers will skip: {why}")
        return 0
    failed = 0
    for program, packages in PACKAGES.items():
        if missing(program) is not None:
            get = _install if program == "podman" else _unpack
            failed |= get(packages) or _after_update(get, packages)
    return failed


def _after_update(get: Callable[[tuple[str, ...]], int], packages: tuple[str, ...]) -> int:
    return run("Reading Debian's list of packages", [*APT, "update"], quiet=True) or get(packages)


def _install(packages: tuple[str, ...]) -> int:
    words = f"Installing {packages[0]} for the tests of containers"
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    return run(words, [*APT, "install", *packages], quiet=True)


def _unpack(packages: tuple[str, ...]) -> int:
    return unpack(packages, UNPACKED, f"Unpacking {packages[0]} for the tests of containers")


def unpack(packages: tuple[str, ...], place: Path, words: str) -> int:
    """Unpack files of Debian packages at a place, without installing anything."""
    with tempfile.TemporaryDirectory() as directory:
        command = [*APT, "-o", "APT::Sandbox::User=root", "download", *packages]
        failed = run(words, command, cwd=Path(directory), quiet=True)
        for package in sorted(Path(directory).glob("*.deb")):
            command = ["dpkg", "-x", str(package), str(place)]
            failed |= subprocess.run(command, check=False).returncode  # noqa: S603 — our own
        return failed


if __name__ == "__main__":
    sys.exit(main())
