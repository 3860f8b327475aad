"""Ends a server of tests or benchmarks when the process that started it has ended, however it ended.

Nothing of the kind works from inside a process that is killed, and PostgreSQL leaves its parent by itself. So
this program waits for the end of a pipe that only that process holds.
"""

import subprocess
import sys
from functools import cache
from pathlib import Path

_WATCH = """
import os, shutil, signal, sys, time
watched = {}
for line in sys.stdin:
    order, pid, folder = line.rstrip("\\n").split(" ", 2)
    if order == "watch":
        watched[int(pid)] = folder
    else:
        watched.pop(int(pid), None)
for pid, folder in watched.items():
    try:
        os.kill(pid, signal.SIGINT)
        for _ in range(100):
            time.sleep(0.05)
            os.kill(pid, 0)
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    if folder:
        shutil.rmtree(folder, ignore_errors=True)
"""


def ends_with_us(pid: int, folder: Path | None = None) -> None:
    """That process is interrupted after we are gone, then killed; its folder is removed."""
    _tell(f"watch {pid} {folder or ''}")


def ended(pid: int) -> None:
    """That process has ended: its number may become another's."""
    _tell(f"forget {pid} ")


def _tell(order: str) -> None:
    pipe = _watcher().stdin
    assert pipe is not None
    pipe.write(order + "\n")
    pipe.flush()


@cache
def _watcher() -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-S", "-c", _WATCH], stdin=subprocess.PIPE, text=True, start_new_session=True
    )
