"""Start a keeper: with a session of its own, the slot's lock and the secret's descriptor, and nothing else of
ours.

The secret goes through the descriptor and nowhere else: no command line, no environment, no disk.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from fcntl import F_DUPFD_CLOEXEC, fcntl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from muster.slots.tree import Slot

    Action = tuple[int, ...] | tuple[int, int, str, int, int]

LOCK_FD, SECRET_FD = 3, 4
"""Where the keeper finds them; keeper.py knows the same numbers."""
CLEAR_OF_THOSE = 10


def spawn(
    argv: list[str],
    slot: Slot,
    *,
    lock: int,
    secret: str,
    environment: Mapping[str, str],
    read_again: bool = False,
) -> int:
    """Return the pid of the new process, which is a child of this one.

    The secret can be read once. With `read_again`, it is a file in memory, for a plan with a fallback.
    """
    reading = _file_in_memory(secret) if read_again else _pipe(secret)
    opened = [reading]
    try:
        # Clear of the numbers they get in the keeper, so that no copy overwrites the other's source.
        sources = [fcntl(each, F_DUPFD_CLOEXEC, CLEAR_OF_THOSE) for each in (lock, reading)]
        opened += sources
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        actions: list[Action] = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(slot.console), flags, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
            (os.POSIX_SPAWN_DUP2, sources[0], LOCK_FD),
            (os.POSIX_SPAWN_DUP2, sources[1], SECRET_FD),
        ]
        return _posix_spawn(argv, environment, actions)
    finally:
        for each in opened:
            os.close(each)


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
