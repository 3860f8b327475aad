"""Enter a sandbox where bubblewrap alone can't: without user namespaces, or with an overlay on MUSTER_HOME.

Usage: sandbox_entry.py agent UID PYTHON [-OPTION...] FILE [ARGUMENT...]
       sandbox_entry.py job GIVEN BWRAP [OPTION...] -- PROGRAM [ARGUMENT...]

`agent` runs a Python file in this process, as root that acts as the user UID. It reads and writes what that
user may, and only `job` becomes root again.

`job` starts bubblewrap. GIVEN is JSON: {"uid": number or null, "home": path or null, "beside": path}. With a
uid, bubblewrap runs as root and the program as that user. The program has no capabilities, no new privileges
and no keys. With a home, the program sees it as an overlay. What it writes there lies in the directory
`beside`, and goes with its workspace. The boot script works in the home itself, and writes to the real one.

Imports nothing but the standard library, run with -I -S.
"""

import ctypes
import json
import os
import runpy
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_REC, MS_PRIVATE = 16384, 1 << 18
PR_SET_SECUREBITS, NO_SETUID_FIXUP = 28, 4
LIBC = ctypes.CDLL(None, use_errno=True)
KEYS = {
    0xC000003E: (248, 249, 250, 0x400000F8, 0x400000F9, 0x400000FA),
    0x40000003: (286, 287, 288),
    0xC00000B7: (217, 218, 219),
    0x40000028: (309, 310, 311),
}
"""By architecture (x86_64 and x32, i386, aarch64, arm): add_key, request_key, keyctl. Without user namespaces
a user's keyring outlives the sandbox, so jobs have none."""
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
NUMBER, ARCHITECTURE = 0, 4
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | 1
"""The latter is EPERM."""


def checked(result: int, what: str) -> None:
    if result:
        raise OSError(ctypes.get_errno(), f"cannot {what}: {os.strerror(ctypes.get_errno())}")


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind, data)]
    checked(LIBC.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]), f"mount {target}")


def keyless() -> bytes:
    """Return a seccomp filter that refuses system calls for keys, on every architecture of the kernel."""
    program = []
    for architecture, numbers in KEYS.items():
        program += [(LOAD, 0, 0, ARCHITECTURE), (EQUAL, 0, len(numbers) + 3, architecture)]
        program += [(LOAD, 0, 0, NUMBER)]
        program += [(EQUAL, len(numbers) - at, 0, number) for at, number in enumerate(numbers)]
        program += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, REFUSE)]
    return b"".join(struct.pack("=HBBI", *each) for each in [*program, (RETURN, 0, 0, REFUSE)])


def own_namespace() -> None:
    """Make a user namespace with the same user in it, which may mount in a mount namespace of its own."""
    uid, gid = os.getuid(), os.getgid()
    checked(LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNS), "make a user namespace")
    maps = {"setgroups": "deny", "uid_map": f"{uid} {uid} 1", "gid_map": f"{gid} {gid} 1"}
    for name, text in maps.items():
        Path("/proc/self", name).write_text(text)


def lay_over(home: str, upper: Path) -> None:
    for each in (upper, upper / "upper", upper / "work"):
        each.mkdir(0o700)
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    data = f"lowerdir={home},upperdir={upper}/upper,workdir={upper}/work,userxattr"
    mount("overlay", home, "overlay", 0, data)


@contextmanager
def files_of(uid: int) -> Iterator[None]:
    """Make files as this user, so that the agent can remove them, also the kernel's files for an overlay.

    Capabilities stay: the kernel needs them for a directory that no user may enter.
    """
    checked(LIBC.prctl(PR_SET_SECUREBITS, NO_SETUID_FIXUP, 0, 0, 0), "keep capabilities")
    LIBC.setfsgid(uid)
    LIBC.setfsuid(uid)
    yield
    LIBC.setfsuid(0)
    LIBC.setfsgid(0)
    checked(LIBC.prctl(PR_SET_SECUREBITS, 0, 0, 0, 0), "give up capabilities again")


def enter(argv: list[str], *, uid: int | None, home: str | None, beside: str) -> None:
    if uid is not None:
        os.setresuid(0, 0, 0)
    if home is not None and str(Path.cwd()) != home:
        upper = Path(beside, f"home-{os.urandom(8).hex()}")
        if uid is None:
            own_namespace()
            lay_over(home, upper)
        else:
            checked(LIBC.unshare(CLONE_NEWNS), "make a mount namespace")
            with files_of(uid):
                lay_over(home, upper)
    if uid is not None:
        filtering = os.memfd_create("seccomp", 0)
        os.write(filtering, keyless())
        os.lseek(filtering, 0, os.SEEK_SET)
        program = argv.index("--") + 1
        drop = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--no-new-privs"]
        drop += ["--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all", "--"]
        argv = [argv[0], "--seccomp", str(filtering), *argv[1:program], *drop, *argv[program:]]
    os.execv(argv[0], argv)  # noqa: S606  # what this program is for


def act_as(uid: int, argv: list[str]) -> None:
    """Run the program in this process. Executing it would make the kernel undo that the user acts for
    root."""
    at = next(at for at, word in enumerate(argv) if at and not word.startswith("-"))
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(0, uid, 0)
    sys.argv = argv[at:]
    runpy.run_path(argv[at], run_name="__main__")


def main() -> None:
    verb, given, *argv = sys.argv[1:]
    if verb == "agent":
        act_as(int(given), argv)
    else:
        enter(argv, **json.loads(given))


if __name__ == "__main__":
    main()
