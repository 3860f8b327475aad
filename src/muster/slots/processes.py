"""Identify and signal processes of this machine without confusing one pid's owners.

The kernel gives a pid out again. So a process is a pid together with its start time and the marker in its
environment. A signal goes through a pidfd that was opened first and verified afterwards. Where there is no
/proc (macOS), `ps` gives the start time, markers can't be read, and a short race remains.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

PROC = Path("/proc")
LINUX: bool = sys.platform == "linux"
MARKER = "MUSTER_SLOT"
_AFTER_NAME = re.compile(r"\d+ \(.*\) (.*)", re.DOTALL)
_STATE, _START = 0, 19  # fields 3 and 22 of /proc/PID/stat, counted after the name


def boot_id() -> str:
    """Return the name of this boot of the machine: no process outlives it."""
    if LINUX:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    return _output("/usr/sbin/sysctl", "-n", "kern.boottime")


def start_time(pid: int) -> str | None:
    """Return when the process with this pid started; None if there is none."""
    if not LINUX:
        return _output("/bin/ps", "-o", "lstart=", "-p", str(pid)) or None
    fields = _stat(pid)
    return None if fields is None else fields[_START]


def reap(children: list[int]) -> None:
    """Reap children of this process that ended, and forget them. Keepers of an earlier process are init's."""
    for pid in tuple(children):
        try:
            ended = os.waitpid(pid, os.WNOHANG)[0] == pid
        except ChildProcessError:
            ended = True
        if ended:
            with suppress(ValueError):  # another thread was here, too
                children.remove(pid)


def running(pid: int) -> bool:
    """Return whether the process does anything: a zombie doesn't."""
    fields = _stat(pid)
    return fields is not None and fields[_STATE] not in "ZX"


def send(pid: int, sign: signal.Signals, *, start: str, marker: str) -> bool:
    """Signal the process that had this pid, start time and marker when it was recorded, and no other."""
    if not hasattr(os, "pidfd_open"):
        return _send_by_pid(pid, sign, start=start)
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        # The descriptor is of the process that has the pid now; if that is ours, it stays ours.
        if start_time(pid) != start or (LINUX and _marker(pid) != marker):
            return False
        signal.pidfd_send_signal(descriptor, sign)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _send_by_pid(pid: int, sign: signal.Signals, *, start: str) -> bool:
    if start_time(pid) != start:
        return False
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, sign)
        return True
    return False


def carriers(markers: Collection[str]) -> list[tuple[int, str]]:
    """Return the processes that carry one of these markers, in order of pids. Without /proc there are
    none."""
    if not LINUX or not markers:
        return []
    pids = sorted(int(entry.name) for entry in os.scandir(PROC) if entry.name.isdigit())
    found = ((pid, _marker(pid)) for pid in pids)
    return [(pid, marker) for pid, marker in found if marker is not None and marker in markers]


def kill_carriers(markers: Collection[str]) -> set[str]:
    """Kill the processes that carry one of these markers; return the markers that were met."""
    met: set[str] = set()
    for pid, marker in carriers(markers):
        start = start_time(pid)
        if start is not None and running(pid):
            met.add(marker)
            send(pid, signal.SIGKILL, start=start, marker=marker)
    return met


def _marker(pid: int) -> str | None:
    try:
        environment = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return None
    prefix = f"{MARKER}=".encode()
    for entry in environment.split(b"\0"):
        if entry.startswith(prefix):
            return entry[len(prefix) :].decode("utf-8", "replace")
    return None


def _stat(pid: int) -> list[str] | None:
    try:
        match = _AFTER_NAME.match((PROC / str(pid) / "stat").read_text(errors="replace"))
    except OSError:
        return None
    return None if match is None else match.group(1).split()


def _output(*command: str) -> str:
    done = subprocess.run(  # noqa: S603  # fixed programs with numbers as arguments
        command, capture_output=True, text=True, check=False, timeout=10
    )
    return done.stdout.strip()
