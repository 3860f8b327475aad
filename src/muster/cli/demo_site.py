"""A server of its own in a temporary directory, for the demo: started, asked, stopped, looked for leftovers.

Owns the promise that nothing is left: not the server, no node, no directory. Only processes that carry the
marks of this directory's nodes are ever signalled.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from muster.cli.exits import UsageProblem
from muster.domain.errors import MusterError

if TYPE_CHECKING:
    from muster.client import SyncClient
    from muster.providers.process.slots import Slot

PREFIX = "muster-demo-"
RECORD = "demo.json"
STOP_WITHIN = 15.0
END_WITHIN = 25.0
LOOK_EVERY = 0.05


class DemoFailed(MusterError):
    """The demo did not come to its end."""


class Site:
    def __init__(self, directory: Path, *, pid: int, start: str, url: str, installation_id: str = "") -> None:
        self.directory = directory
        self.url = url
        self._pid = pid
        self._start = start
        self._installation = installation_id
        self._child: subprocess.Popen[str] | None = None

    # --- starting ---------------------------------------------------------------------------------

    @classmethod
    def started(cls, config: str = "") -> Self:
        """`config`: what its muster.toml says."""
        from muster.providers.process import processes

        directory = Path(tempfile.mkdtemp(prefix=PREFIX))
        (directory / "muster.toml").write_text(config, encoding="utf-8")
        child: subprocess.Popen[str] | None = None
        try:
            child = _spawned(directory)
            site = cls(directory, pid=child.pid, start=processes.start_time(child.pid) or "", url="")
            site._child = child
        except BaseException:
            if child is not None:
                child.kill()
            shutil.rmtree(directory, ignore_errors=True)
            raise
        try:
            site.url = site._announced(child)
            site._remember()
        except BaseException:
            site.end()
            raise
        return site

    def _announced(self, child: "subprocess.Popen[str]") -> str:
        """The server prints one line of JSON once it listens."""
        said = child.stdout.readline() if child.stdout is not None else ""
        try:
            return str(json.loads(said)["url"])
        except (ValueError, KeyError, TypeError):
            raise DemoFailed(f"cannot start the server: {self.log_tail()}") from None

    def _remember(self) -> None:
        from muster.client import calls

        with self.client() as client:
            self._installation = client.send(calls.installation()).id
        kept = {"pid": self._pid, "start": self._start, "url": self.url, "installation": self._installation}
        (self.directory / RECORD).write_text(json.dumps(kept), encoding="utf-8")

    @classmethod
    def found(cls, directory: Path) -> Self:
        """One that an earlier demo left up."""
        try:
            kept = json.loads((directory / RECORD).read_text(encoding="utf-8"))
            return cls(
                directory.resolve(),
                pid=int(kept["pid"]),
                start=str(kept["start"]),
                url=str(kept["url"]),
                installation_id=str(kept["installation"]),
            )
        except (OSError, ValueError, KeyError, TypeError):
            raise UsageProblem(
                f"cannot stop {directory}: it is not the directory of a demo that was left up"
            ) from None

    def client(self) -> "SyncClient":
        from muster.client import SyncClient
        from muster.config import DataDirectory

        return SyncClient(self.url, DataDirectory(self.directory).admin_token())

    def log_tail(self) -> str:
        with suppress(OSError):
            lines = (self.directory / "server.log").read_text(errors="replace").splitlines()
            return " / ".join(lines[-3:]) or "it said nothing"
        return "it said nothing"

    @contextmanager
    def needed(self) -> Iterator[None]:
        """A client is patient with a server that is away; here it would wait for one that never returns."""

        def ended(_number: int, _frame: object) -> None:
            if not self._serving():
                raise DemoFailed(f"cannot go on: the server is gone; its last words: {self.log_tail()}")

        before = signal.signal(signal.SIGCHLD, ended)
        try:
            yield
        finally:
            signal.signal(signal.SIGCHLD, before)

    # --- ending -----------------------------------------------------------------------------------

    def end(self) -> int:
        """End everything; gives the number of nodes that were still there after the server had ended them."""
        with _undisturbed():
            return self._end()

    def _end(self) -> int:
        self._end_nodes()
        self._stop_server()
        left = self._leftovers()
        self._force()
        if self._child is not None and self._child.stdout is not None:
            self._child.stdout.close()
        shutil.rmtree(self.directory, ignore_errors=True)
        return left

    def _end_nodes(self) -> None:
        """As an operator would: through the server, and until it says that they are gone."""
        from muster.client import calls

        if not self._serving():
            return
        with suppress(MusterError), self.client() as client:
            until = time.monotonic() + END_WITHIN
            while time.monotonic() < until:
                nodes = client.send(calls.nodes(limit=500)).items
                if not nodes:
                    return
                for node in nodes:
                    if node.state.value != "terminating":
                        client.send(calls.terminate(node.id))
                time.sleep(LOOK_EVERY)

    def _stop_server(self) -> None:
        for sign in (signal.SIGTERM, signal.SIGKILL):
            if not self._serving():
                return
            with suppress(ProcessLookupError):
                os.kill(self._pid, sign)
            until = time.monotonic() + STOP_WITHIN
            while self._serving() and time.monotonic() < until:
                time.sleep(LOOK_EVERY)

    def _serving(self) -> bool:
        from muster.providers.process import processes

        if self._child is not None:
            return self._child.poll() is None
        return bool(self._start) and processes.start_time(self._pid) == self._start

    def _slots(self) -> "Sequence[Slot]":
        from muster.providers.process.slots import Tree

        if not self._installation:
            return ()
        return tuple(Tree(self.directory / "nodes", self._installation).all_slots())

    def _leftovers(self) -> int:
        """By lock, and by the marks that everything carries which a node started."""
        from muster.providers.process import processes

        slots = [slot for slot in self._slots() if slot.started]
        locked = {slot.machine_id for slot in slots if not slot.gone and slot.locked()}
        marks = {record.marker: slot.machine_id for slot in slots if (record := slot.record()) is not None}
        carried = {marks[mark] for pid, mark in processes.carriers(marks) if processes.running(pid)}
        return len(locked | carried)

    def _force(self) -> None:
        """Only after a failure: what the server did not end any more."""
        from muster.providers.process import killing
        from muster.providers.process.looking import look

        until = time.monotonic() + END_WITHIN
        while time.monotonic() < until:
            alive = [slot for slot in self._slots() if slot.started and not slot.gone]
            if not alive:
                return
            for slot in alive:
                killing.ask(slot, now=time.time())
            look(alive, grace=1.0, now=time.time())
            time.sleep(LOOK_EVERY)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """An impatient second Ctrl-C, or a terminal that is closed, must not leave half of it behind."""
    signs = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(sign, signal.SIG_IGN) for sign in signs]
    try:
        yield
    finally:
        for sign, handler in zip(signs, before, strict=True):
            signal.signal(sign, handler)


def _spawned(directory: Path) -> "subprocess.Popen[str]":
    """A real server, of this same Python, deaf to the Ctrl-C that is meant for us: we end it in order."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
    command = [sys.executable, "-m", "muster.cli", "serve", "--port", "0", "--data-dir", str(directory)]
    with (directory / "server.log").open("wb") as log:
        return subprocess.Popen(  # noqa: S603 — our own command line
            [*command, "--output", "json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
            cwd=directory,  # no muster.toml of the place where the demo was started
            start_new_session=True,
        )
