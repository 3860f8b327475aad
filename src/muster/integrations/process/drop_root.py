"""Give up root before a sandbox begins: show a few paths to an unprivileged user, become it, run a program.

Usage: drop_root.py UID DIRECTORY NAMES PROGRAM [ARGUMENT...], as root. NAMES is JSON, {name: path}.

In a mount namespace of its own, each path is mounted at /tmp/NAME, whatever the rights of the directories
above it. DIRECTORY is an empty one to prepare that in. Nothing outside of the namespace changes. The program
can't become root again, and is killed with its parent. Imports nothing but the standard library, run with -I
-S.
"""

import ctypes
import json
import os
import signal
import sys
from pathlib import Path

CLONE_NEWNS = 0x20000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 4096, 16384, 1 << 18
PR_SET_PDEATHSIG = 1
AT = "/tmp"  # noqa: S108  # this mount namespace has its own
LIBC = ctypes.CDLL(None, use_errno=True)


def checked(result: int, what: str) -> None:
    if result:
        raise OSError(ctypes.get_errno(), f"cannot {what}: {os.strerror(ctypes.get_errno())}")


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind, data)]
    checked(LIBC.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]), f"mount {target}")


def show(directory: Path, names: dict[str, str]) -> None:
    checked(LIBC.unshare(CLONE_NEWNS), "make a mount namespace")
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    mount("tmpfs", str(directory), "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=64k")
    for name, path in names.items():
        target = directory / name
        if Path(path).is_dir():
            target.mkdir()
        else:
            target.touch()
        mount(path, str(target), None, MS_BIND | MS_REC)
    mount(str(directory), AT, None, MS_BIND | MS_REC)


def become(uid: int) -> None:
    parent = os.getppid()
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    # Another user id has no such wish any more: repeat it.
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(127)


def main() -> None:
    uid, directory, names, *argv = sys.argv[1:]
    show(Path(directory), json.loads(names))
    become(int(uid))
    os.execv(argv[0], argv)  # noqa: S606  # what this program is for


if __name__ == "__main__":
    main()
