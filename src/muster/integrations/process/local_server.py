"""End the server of this machine and its nodes: through the server first, then by their locks.

This module owns the promise that nothing is left. It signals only processes with the marks of this
directory's nodes. It signals the server only if its pid is still the same process.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from muster.domain.errors import MusterError, NotCancellable, NotFound
from muster.slots import processes, termination
from muster.slots.states import look
from muster.slots.tree import Slot, Tree

if TYPE_CHECKING:
    from muster.client import SyncClient

STOP_WITHIN = 15.0
END_WITHIN = 25.0
LOOK_EVERY = 0.05
_PAGE = 500


def _quietly(_left: int) -> None:
    """Report nothing; the default listener."""


class LocalServer:
    def __init__(
        self,
        directory: Path,
        *,
        pid: int,
        start: str,
        url: str,
        installation_id: str = "",
        nodes: Path | None = None,
    ) -> None:
        """Describe a server. `start`: when the process of that pid started; empty if there is none."""
        self.directory = directory
        self.url = url
        self.nodes = nodes or directory / "nodes"
        self._pid = pid
        self._start = start
        self._installation = installation_id

    def client(self) -> "SyncClient":
        from muster.client import SyncClient
        from muster.config import DataDirectory

        return SyncClient(self.url, DataDirectory(self.directory).admin_token())

    def serving(self) -> bool:
        there = bool(self._start) and processes.start_time(self._pid) == self._start
        return there and (not processes.LINUX or processes.running(self._pid))  # a zombie serves no request

    def cancel_all(self) -> None:
        """Cancel everything that has not ended, so that it doesn't fail by the loss of its nodes."""
        from muster.client import calls

        with self.client() as client:
            for operation in client.send(calls.operations(status=("queued", "running"), limit=_PAGE)).items:
                with suppress(NotCancellable, NotFound):
                    client.send(calls.cancel(operation.operation_id))

    def end_nodes(self, *, within: float = END_WITHIN, told: Callable[[int], None] = _quietly) -> int:
        """Terminate all nodes through the server and wait until they are gone; return how many are left.

        `told` is called with each change of that number.
        """
        from muster.client import calls

        left, until = -1, time.monotonic() + within
        with self.client() as client:
            while True:
                nodes = client.send(calls.nodes(limit=_PAGE)).items
                if len(nodes) != left:
                    left = len(nodes)
                    told(left)
                if not nodes or time.monotonic() >= until:
                    return left
                for node in nodes:
                    if node.state.value != "terminating":
                        with suppress(NotFound):
                            client.send(calls.terminate(node.id))
                time.sleep(LOOK_EVERY)

    def stop(self) -> None:
        """Ask the server to end, and make it end if it doesn't."""
        for sign in (signal.SIGTERM, signal.SIGKILL):
            if not self.serving():
                return
            with suppress(ProcessLookupError):
                os.kill(self._pid, sign)
            until = time.monotonic() + STOP_WITHIN
            while self.serving() and time.monotonic() < until:
                time.sleep(LOOK_EVERY)

    def leftovers(self) -> int:
        """Return the nodes that exist: by lock, and by the marks of everything that a node started."""
        slots = [slot for slot in self._slots() if slot.started]
        locked = {slot.machine_id for slot in slots if not slot.gone and slot.locked()}
        marks = {record.marker: slot.machine_id for slot in slots if (record := slot.record()) is not None}
        carried = {marks[mark] for pid, mark in processes.carriers(marks) if processes.running(pid)}
        return len(locked | carried)

    def force(self) -> None:
        """End nodes without a server: what it did not end any more."""
        until = time.monotonic() + END_WITHIN
        while time.monotonic() < until:
            alive = [slot for slot in self._slots() if slot.started and not slot.gone]
            if not alive:
                return
            for slot in alive:
                termination.ask(slot, now=time.time())
            look(alive, grace=1.0, now=time.time())
            time.sleep(LOOK_EVERY)

    def _slots(self) -> Sequence[Slot]:
        return tuple(Tree(self.nodes, self._installation).all_slots()) if self._installation else ()


@contextmanager
def ignore_interrupts() -> Iterator[None]:
    """Ignore a second Ctrl-C and a closed terminal, so that nothing is left half done."""
    signs = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(sign, signal.SIG_IGN) for sign in signs]
    try:
        yield
    finally:
        for sign, handler in zip(signs, before, strict=True):
            signal.signal(sign, handler)


class NotEnded(MusterError):
    """Something of this machine's server is still there."""
