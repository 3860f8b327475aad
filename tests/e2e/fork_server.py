"""Fork servers off one process that has imported everything."""

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

LAUNCHER = Path(__file__).with_name("launcher.py")
ROOT = LAUNCHER.parents[2]

FAKE = {"AWS_ACCESS_KEY_ID": "fake", "AWS_SECRET_ACCESS_KEY": "fake"}
"""Whatever credentials this machine has, they are none of the tests' business."""


class ForkServer:
    def __init__(self) -> None:
        self._one_at_a_time = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, str(LAUNCHER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}", **FAKE},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def start(self, argv: Sequence[str], *, log: Path) -> "Child":
        ready = log.with_name("ready")
        ready.unlink(missing_ok=True)
        os.mkfifo(ready)
        # Open for both, so that neither side waits for the other; its own end goes with it.
        said = os.open(ready, os.O_RDWR)
        pid = self.ask({"argv": list(argv), "log": str(log), "ready": str(ready)})
        return Child(self, pid, said)

    def ask(self, order: dict[str, object]) -> int:
        assert self._process.stdin is not None and self._process.stdout is not None
        with self._one_at_a_time:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            return int(self._process.stdout.readline())


class Child:
    """A server, alive or dead."""

    def __init__(self, fork_server: ForkServer, pid: int, said: int) -> None:
        self.pid = pid
        self._fork_server = fork_server
        self._said = said
        self._life = os.pidfd_open(pid)

    def first_word(self, within: float) -> str:
        """The line that it writes when it is ready; empty if it ends first, or takes too long."""
        ready, _, _ = select.select([self._said, self._life], [], [], within)
        return os.read(self._said, 4096).decode() if self._said in ready else ""

    def send(self, number: int) -> None:
        signal.pidfd_send_signal(self._life, number)

    def wait(self, within: float) -> int:
        """Its exit code, negative for a signal."""
        ended, _, _ = select.select([self._life], [], [], within)
        assert ended, f"the server still lives after {within:g} s"
        for each in (self._said, self._life):
            with suppress(OSError):
                os.close(each)
        return self._fork_server.ask({"wait": self.pid})
