"""What a host is and has, for `muster hosts` and `muster doctor`. Runs on hosts, with Python 3.8 or later."""

from __future__ import annotations

import os
import platform
import pwd
import re
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.slots.processes import boot_id
from muster.slots.tree import running

if TYPE_CHECKING:
    from collections.abc import Sequence

REACH_WITHIN = 5.0
LOGIND = (Path("/etc/systemd/logind.conf"), Path("/usr/lib/systemd/logind.conf"))


def facts(directory: Path, installation_id: str, urls: Sequence[str]) -> dict[str, Any]:
    place = next(path for path in (directory, *directory.parents) if path.exists())
    disk = os.statvfs(place)
    user = pwd.getpwuid(os.getuid())
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "user": user.pw_name,
        "uid": user.pw_uid,
        "boot_id": boot_id(),
        "machine": os.uname().machine,
        "cpu": os.cpu_count() or 1,
        "memory_mib": _memory_mib(),
        "directory": str(directory),
        "writable": os.access(place, os.W_OK | os.X_OK),
        "filesystem": _filesystem(place),
        "free_bytes": disk.f_bavail * disk.f_frsize,
        "free_files": disk.f_favail if disk.f_files else None,
        "time": time.time(),
        "kills_processes": _kills_processes(),
        "lingers": (Path("/var/lib/systemd/linger") / user.pw_name).exists(),
        "others": _others(directory, installation_id),
        "reached": {url: _reached(url) for url in urls},
    }


def free_bytes(directory: Path) -> int:
    place = next(path for path in (directory, *directory.parents) if path.exists())
    disk = os.statvfs(place)
    return disk.f_bavail * disk.f_frsize


def _memory_mib() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    except (OSError, ValueError):
        return 0


def _filesystem(place: Path) -> str:
    """The type of the file system that a path is on."""
    best, found = "", ""
    with suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            before, _, after = line.partition(" - ")
            mount = before.split()[4]
            inside = str(place.resolve()) == mount or str(place.resolve()).startswith(mount.rstrip("/") + "/")
            if inside and len(mount) >= len(best):
                best, found = mount, after.split()[0]
    return found


def _kills_processes() -> bool:
    """Whether logind kills what a session leaves behind."""
    files = [*LOGIND, *sorted(Path("/etc/systemd/logind.conf.d").glob("*.conf"))]
    answer = False
    for path in files:
        with suppress(OSError):
            for word in re.findall(r"^\s*KillUserProcesses\s*=\s*(\w+)", path.read_text(), re.MULTILINE):
                answer = word.lower() in ("yes", "true", "on", "1")
    return answer


def _others(directory: Path, installation_id: str) -> dict[str, int]:
    """How many nodes of other installations run below the same directory."""
    found: dict[str, int] = {}
    with suppress(OSError):
        for entry in sorted(directory.iterdir()):
            if entry.is_dir() and entry.name != installation_id:
                found.update(running(entry))
    return found


def _reached(url: str) -> str:
    """Empty if the server answers from here, else why not."""
    try:
        with urllib.request.urlopen(url + "/healthz", timeout=REACH_WITHIN) as answer:  # noqa: S310  # http(s)
            return "" if answer.status == 200 else f"it answered {answer.status}"  # noqa: PLR2004
    except urllib.error.HTTPError as error:
        return f"it answered {error.code}"
    except (OSError, ValueError) as error:
        return str(getattr(error, "reason", error))
