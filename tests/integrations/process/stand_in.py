"""A stand-in for the agent: does what a test wants, and tells the test's desk all about itself.

Usage: stand_in.py MANNER run --server http://127.0.0.1:PORT --dir DIR --secret-fd N --proof-prefix P.
Its connection to the desk stays open as long as it lives, so the desk knows when it has died.
"""

import json
import os
import resource
import signal
import socket
import sys
from pathlib import Path


def argument(name: str) -> str:
    return sys.argv[sys.argv.index(name) + 1]


def hello(role: str, **more: object) -> socket.socket:
    port = int(argument("--server").rpartition(":")[2])
    connection = socket.create_connection(("127.0.0.1", port))
    facts = {
        "role": role,
        "pid": os.getpid(),
        "session": os.getsid(0),
        "group": os.getpgid(0),
        "directory": str(Path.cwd()),
        "environment": dict(os.environ),
        "argv": sys.argv,
        "descriptors": sorted(int(entry.name) for entry in os.scandir("/dev/fd")),
        "stdin": str(Path("/proc/self/fd/0").readlink()),
        "umask": os.umask(0o077),
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "core": resource.getrlimit(resource.RLIMIT_CORE),
        "data": resource.getrlimit(resource.RLIMIT_DATA),
        **more,
    }
    connection.sendall(json.dumps(facts).encode() + b"\n")
    return connection


def wait() -> None:
    while True:
        signal.pause()


def daemon(role: str) -> None:
    """Forked twice, in a session of its own, without a trace of its origin in its environment."""
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    argv = [sys.executable, "-I", "-S", __file__, role, *sys.argv[2:]]
    os.execve(argv[0], argv, {})  # noqa: S606


def main() -> None:
    manner = sys.argv[1]
    if manner in ("stray", "marked"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _kept = hello(manner)
        wait()
    secret = os.read(int(argument("--secret-fd")), 4096).decode()
    os.close(int(argument("--secret-fd")))
    sees = {path: Path(path).exists() for path in sys.argv[1].split("=")[1:]}
    if manner == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif manner != "rude":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if manner in ("daemon", "deaf"):
        daemon("stray")
    if manner == "marker" and not os.fork():
        os.setsid()
        argv = [sys.executable, "-I", "-S", __file__, "marked", *sys.argv[2:]]
        os.execve(argv[0], argv, dict(os.environ))  # noqa: S606
    if manner == "zombies":
        for _ in range(5):
            if not os.fork():
                os._exit(0)
    if manner == "flood":
        for number in range(40_000):
            print("flood", number, flush=False)
    print("stand-in: ready", flush=True)
    _kept = hello("agent", proof=argument("--proof-prefix") + secret, sees=sees)
    if manner == "brief":
        sys.exit(3)
    wait()


if __name__ == "__main__":
    main()
