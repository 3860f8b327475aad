"""Start the keeper of a slot that was never started. The next look understands the state after each step.

    directory and lock made         never started: a repeat starts it
    started.json written            about to start: gone, unless a process holds the lock
    keeper spawned                  runs: the keeper holds the lock, whatever becomes of the server

The keeper gets a session of its own, the slot's lock and the secret's descriptor, and nothing else of ours.
The secret goes through the descriptor and nowhere else: no command line, no environment, no disk.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import signal
from contextlib import suppress
from fcntl import F_DUPFD_CLOEXEC, fcntl
from pathlib import Path
from typing import TYPE_CHECKING

from muster.slots.processes import MARKER, boot_id
from muster.slots.tree import Started

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from muster.slots.tree import Slot

    Action = tuple[int, ...] | tuple[int, int, str, int, int]

LOCK_FD, SECRET_FD = 3, 4
"""Where the keeper finds them; keeper.py knows the same numbers."""
CLEAR_OF_THOSE = 10
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Start:
    """One start. Holds the slot's lock while it is entered; from `spawn` on, the keeper holds it too."""

    def __init__(self, slot: Slot) -> None:
        self.secret = secrets.token_urlsafe(32)
        self.marker = f"{slot.machine_id}:{secrets.token_hex(8)}"
        self._slot = slot

    def __enter__(self) -> Start:
        self._lock = self._slot.make()
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._lock)

    def mark(
        self, plan: Mapping[str, Any], *, at: float, isolation: str, limits: Iterable[str], group: Path | None
    ) -> None:
        """Write down what the keeper is about to follow: from now on the slot counts as started."""
        cgroup = "" if group is None else str(group)
        record = Started(
            machine_id=self._slot.machine_id,
            marker=self.marker,
            secret_sha256=hashlib.sha256(self.secret.encode()).hexdigest(),
            boot_id=boot_id(),
            at=at,
            isolation=isolation,
            limits=list(limits),
            cgroup=cgroup,
        )
        self._slot.mark_started(record, {"directory": str(self._slot.work), "cgroup": cgroup, **plan})

    def spawn(
        self, argv: list[str], environment: Mapping[str, str], *, shown: str = "", read_again: bool = False
    ) -> int:
        """Return the keeper's pid, which is a child of this process. It reads `shown` instead of the secret.

        That can be read once. With `read_again`, it is a file in memory, for a plan with a fallback.
        """
        reading = (_file_in_memory if read_again else _pipe)(shown or self.secret)
        opened = [reading]
        try:
            # Clear of the numbers they get in the keeper, so that no copy overwrites the other's source.
            sources = [fcntl(each, F_DUPFD_CLOEXEC, CLEAR_OF_THOSE) for each in (self._lock, reading)]
            opened += sources
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            actions: list[Action] = [
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(self._slot.console), flags, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
                (os.POSIX_SPAWN_DUP2, sources[0], LOCK_FD),
                (os.POSIX_SPAWN_DUP2, sources[1], SECRET_FD),
            ]
            return _posix_spawn(argv, environment, actions)
        finally:
            for each in opened:
                os.close(each)


def unwrapped_environment(slot: Slot, python: str, marker: str) -> dict[str, str]:
    """Return the environment of a node without a sandbox."""
    wiped = (slot.work, slot.work / "home", slot.work / "bin", slot.tmp)
    return {**node_environment(python, slot.work, wiped, marker), "TMPDIR": str(slot.tmp)}


def node_environment(python: str, home: Path, wiped: Iterable[Path], marker: str) -> dict[str, str]:
    """Return an environment with nothing of ours. `python` comes first in PATH, because it works."""
    own = str(Path(python).resolve().parent)
    return {
        "PATH": SYSTEM_PATH if own in SYSTEM_PATH.split(":") else f"{own}:{SYSTEM_PATH}",
        "LANG": "C.UTF-8",
        "TZ": os.environ.get("TZ", "UTC"),
        "HOME": str(home),
        "MUSTER_WIPE": "\n".join(map(str, wiped)),
        MARKER: marker,
    }


def _pipe(secret: str) -> int:
    reading, writing = os.pipe()
    os.write(writing, secret.encode())
    os.close(writing)
    return reading


def _file_in_memory(secret: str) -> int:
    descriptor = os.memfd_create("secret")
    os.write(descriptor, secret.encode())
    return descriptor


def _posix_spawn(argv: list[str], environment: Mapping[str, str], actions: Sequence[Action]) -> int:
    """A session of its own from the first instruction where the platform can; else the keeper makes it."""
    for own_session in (True, False):
        with suppress(NotImplementedError):
            return os.posix_spawn(
                argv[0],
                argv,
                environment,
                file_actions=actions,
                setsid=own_session,
                setsigmask=(),
                setsigdef=(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD),
            )
    raise NotImplementedError("cannot start processes here: posix_spawn is missing")
