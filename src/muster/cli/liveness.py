"""Print when a command's node falls silent, when it will be given up, and when it answers again.

Output of a silent command and of a dead node look alike; the server knows which it is.
"""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from muster.cli import printing
from muster.domain.errors import MusterError

if TYPE_CHECKING:
    from muster.client import SyncClient
    from muster.wire.commands import Command

LOOK_EVERY = 2.0
LOOKED_AT_MOST = 64


class Watched:
    """The commands that are being followed; touched by the follower and by the watch."""

    def __init__(self, commands: Iterable["Command"]) -> None:
        self._open = {command.ordinal: command for command in commands}
        self._heard: set[int] = set()
        self._silent: set[int] = set()

    def heard(self, ordinal: int) -> None:
        """Output came: its node lives."""
        self._heard.add(ordinal)

    def ended(self, ordinal: int) -> None:
        self._open.pop(ordinal, None)

    def look(self, client: "SyncClient") -> None:
        """Ask after those that were quiet since the last look, and tell what changed."""
        from muster.client import calls

        heard, self._heard = self._heard, set()
        quiet = [command for command in list(self._open.values()) if command.ordinal not in heard]
        for command in quiet[:LOOKED_AT_MOST]:
            with suppress(MusterError):  # a server that is away is told by who follows the output
                self._tell(client.send(calls.command(command.id)))

    def _tell(self, command: "Command") -> None:
        silent, told = command.silent_since is not None, command.ordinal in self._silent
        if silent and not told:
            self._silent.add(command.ordinal)
            printing.remark("node_silent", _silence(command))
        elif told and not silent and not command.ended:
            self._silent.discard(command.ordinal)
            printing.remark("node_back", f"[{command.ordinal}] {command.node_id} answers again")


def _silence(command: "Command") -> str:
    since, until = command.silent_since, command.given_up_at
    return (
        f"[{command.ordinal}] {command.node_id} has not answered since {printing.stamp(since)}"
        f" ({printing.since(since)} ago);"
        f" Muster gives it up at {printing.stamp(until)} (in {printing.until(until)})"
    )


@contextmanager
def watched(client: "SyncClient", commands: Iterable["Command"]) -> Iterator[Watched]:
    """A thread of its own, so that looking never holds up output."""
    found, over = Watched(commands), threading.Event()

    def watch() -> None:
        while not over.wait(LOOK_EVERY):
            found.look(client)

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield found
    finally:
        over.set()
