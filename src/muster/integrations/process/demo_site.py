"""A server of its own in a temporary directory, for the demo: started, asked, stopped, looked for leftovers.

Owns the directory: nothing of it is left. How server and nodes end is `local_server`'s.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from muster.cli.exits import UsageProblem
from muster.domain.errors import MusterError
from muster.integrations.process.local_server import LocalServer, ignore_interrupts
from muster.slots import processes

PREFIX = "muster-demo-"
RECORD = "demo.json"


class DemoFailed(MusterError):
    """The demo did not come to its end."""


class Site(LocalServer):
    def __init__(self, directory: Path, *, pid: int, start: str, url: str, installation_id: str = "") -> None:
        super().__init__(directory, pid=pid, start=start, url=url, installation_id=installation_id)
        self._child: subprocess.Popen[str] | None = None

    # --- starting ---------------------------------------------------------------------------------

    @classmethod
    def started(cls, config: str = "") -> Self:
        """Start a server. `config`: the text of its muster.toml."""
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

    def _announced(self, child: subprocess.Popen[str]) -> str:
        """Return the line of JSON that the server prints once it listens."""
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
        """Return a server that an earlier demo left up."""
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

    def log_tail(self) -> str:
        with suppress(OSError):
            lines = (self.directory / "server.log").read_text(errors="replace").splitlines()
            return " / ".join(lines[-3:]) or "it said nothing"
        return "it said nothing"

    @contextmanager
    def needed(self) -> Iterator[None]:
        """Check that the server lives: a client would wait long for one that never returns."""

        def ended(_number: int, _frame: object) -> None:
            if not self.serving():
                raise DemoFailed(
                    f"the demo failed: the server stopped; the end of its log: {self.log_tail()}"
                )

        before = signal.signal(signal.SIGCHLD, ended)
        try:
            yield
        finally:
            signal.signal(signal.SIGCHLD, before)

    # --- ending -----------------------------------------------------------------------------------

    def end(self) -> int:
        """End everything; gives the number of nodes that were still there after the server had ended them."""
        with ignore_interrupts():
            return self._end()

    def _end(self) -> int:
        if self.serving():
            with suppress(MusterError):
                self.end_nodes()
        self.stop()
        left = self.leftovers()
        self.force()
        if self._child is not None and self._child.stdout is not None:
            self._child.stdout.close()
        shutil.rmtree(self.directory, ignore_errors=True)
        return left

    def serving(self) -> bool:
        return super().serving() if self._child is None else self._child.poll() is None


def _spawned(directory: Path) -> subprocess.Popen[str]:
    """Start a real server with this Python, which ignores our Ctrl-C: the demo stops it in order."""
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
