"""The server of a demo in a directory of its own, and the command line as its user has it."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from muster.client import SyncClient, calls
from muster.config import DataDirectory

PATIENCE = 120.0


class DemoServer:
    def __init__(
        self, directory: Path, config: str, *, environment: Mapping[str, str], hidden: tuple[str, ...] = ()
    ) -> None:
        """Write the settings. `hidden`: how variables begin that the server must not see."""
        self.directory = directory
        prefixes = ("MUSTER_", *hidden)
        others = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
        self._environment = {**others, **environment, "MUSTER_DATA_DIR": str(directory / "data")}
        (directory / "muster.toml").write_text(config)

    @contextmanager
    def serving(self) -> Iterator[None]:
        with (self.directory / "server.log").open("wb") as log:
            server = subprocess.Popen(
                [sys.executable, "-m", "muster.cli", "serve", "--config", "muster.toml", "--port", "0"],
                cwd=self.directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            until(lambda: self._data.url() is not None or server.poll() is not None, "the server")
            if server.poll() is not None:
                sys.exit(f"error: the server did not start: {(self.directory / 'server.log').read_text()}")
            yield
        finally:
            server.terminate()
            server.wait()

    @property
    def _data(self) -> DataDirectory:
        return DataDirectory(self.directory / "data")

    def client(self) -> SyncClient:
        return SyncClient(self._data.url() or "", self._data.admin_token())

    def muster(self, *words: str) -> None:
        """Run a command as a person would, and show it. A failure ends the demo."""
        say(f"\n$ muster {' '.join(each if ' ' not in each else repr(each) for each in words)}")
        argv = [sys.executable, "-m", "muster.cli", *words]
        done = subprocess.run(argv, cwd=self.directory, env=self._environment, check=False)
        if done.returncode:
            sys.exit(f"error: that ended with {done.returncode}")

    def seconds(self, run: str) -> float:
        """Return how long its provision took, by the server's clock."""
        with self.client() as client:
            return client.send(calls.operations(kind="provision", run=run, limit=1)).items[0].elapsed_seconds

    def leave_up(self) -> None:
        """With KEEP=1, wait for Ctrl-C."""
        if os.environ.get("KEEP", "") in ("", "0"):
            return
        say("\nleft up; Ctrl-C ends it; look around with:")
        say(f"  cd {self.directory}; export MUSTER_DATA_DIR={self.directory}/data; muster nodes")
        with suppress(KeyboardInterrupt):
            threading.Event().wait()


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait until it holds. The demo ends if it takes too long."""
    latest = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > latest:
            sys.exit(f"error: waited in vain for {what}")
        time.sleep(0.1)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def end_with(main: Callable[[], int]) -> None:
    """Run a demo as the program. SIGTERM and Ctrl-C end it in order."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
