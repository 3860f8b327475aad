"""Limits of a node on a host by systemd: a scope of its own, where systemd-run may be used.

As root, a scope of the system; it also outlives the ssh session. As another user, a scope of the user's own
systemd, if the user lingers. Else there is none, and rlimits are all. Runs on hosts.
"""

from __future__ import annotations

import os
import pwd
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.slots.limits import Size

RUNNING = Path("/run/systemd/system")
LINGER = Path("/var/lib/systemd/linger")
PIDS = 4096
AUTO, RLIMITS = "auto", "rlimits"


def kind(wanted: str) -> str:
    """`system`, `user`, or nothing."""
    if wanted == RLIMITS or not RUNNING.is_dir() or shutil.which("systemd-run") is None:
        return ""
    if os.getuid() == 0:
        return "system"
    lingers = (LINGER / pwd.getpwuid(os.getuid()).pw_name).exists()
    return "user" if lingers and _runtime().joinpath("systemd").exists() else ""


def command(machine_id: str, size: Size, wanted: str) -> list[str]:
    """What a keeper's command line begins with."""
    found = kind(wanted)
    program = shutil.which("systemd-run")
    if not found or program is None:
        return []
    limits = (
        f"MemoryMax={size.memory_mib}M",
        "MemorySwapMax=0",
        f"CPUQuota={size.cpu * 100}%",
        f"TasksMax={PIDS}",
    )
    argv = [program, "--scope", "--quiet", "--collect", f"--unit=muster-{machine_id}"]
    argv += ["--user"] if found == "user" else []
    return [*argv, *(f"--property={each}" for each in limits), "--"]


def environment(scope: list[str]) -> dict[str, str]:
    """What systemd-run needs to find the user's own systemd."""
    return {"XDG_RUNTIME_DIR": str(_runtime())} if "--user" in scope else {}


def words(size: Size) -> list[str]:
    return [f"{size.cpu} processors", f"{size.memory_mib} MiB of memory", f"{PIDS} processes"]


def _runtime() -> Path:
    return Path("/run/user") / str(os.getuid())
