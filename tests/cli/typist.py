"""A person at a real terminal: types, reads, changes the window's size, and looks how it is left."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tests.cli.terminal import MUSTER, PATIENCE


class Typist:
    def __init__(
        self,
        *words: str,
        environment: Mapping[str, str],
        directory: Path,
        size: tuple[int, int] = (30, 90),
        program: Sequence[str] = MUSTER,
    ) -> None:
        self._ours, self._theirs = pty.openpty()
        self.resize(*size)
        self.before = self.settings()
        self.seen = b""
        self.process = subprocess.Popen(
            [*program, *words],
            cwd=directory,
            env={**environment, "TERM": "xterm-256color"},
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 — nothing else runs here
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)

    def settings(self) -> list[Any]:
        return termios.tcgetattr(self._theirs)

    @property
    def raw(self) -> bool:
        """Whether keys are passed on one by one."""
        return not self.settings()[3] & termios.ICANON

    def resize(self, rows: int, cols: int) -> None:
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, text: str | bytes) -> None:
        data = text.encode() if isinstance(text, str) else text
        while data:
            _, writable, _ = select.select([], [self._ours], [], PATIENCE)
            assert writable, "the terminal takes no more keys"
            data = data[os.write(self._ours, data[:1024]) :]
            self._read(0.0)

    def line(self, text: str) -> None:
        self.type(text + "\r")

    def sees(self, *texts: str, within: float = PATIENCE) -> str:
        """Wait until one of the texts is on the screen; returns what came before it."""
        wanted = re.compile(b"|".join(re.escape(text.encode()) for text in texts))
        latest = time.monotonic() + within
        while not (found := wanted.search(self.seen)):
            assert time.monotonic() < latest, f"waited in vain for {texts}: {self.seen[-2000:]!r}"
            assert self._read(0.2) or self.process.poll() is None, f"ended without {texts}: {self.seen!r}"
        before, self.seen = self.seen[: found.start()], self.seen[found.end() :]
        return before.decode(errors="replace")

    def prompted(self) -> str:
        """Wait for the prompt, which ends in "#" for root outside of a sandbox; return what came before."""
        return self.sees("$ ", "# ")

    def asks(self, text: str, for_answer: str) -> str:
        """Type a line and wait for its answer."""
        self.line(text)
        return self.sees(for_answer)

    def code(self, within: float = PATIENCE) -> int:
        """Read on to the end; the exit code."""
        latest = time.monotonic() + within
        while self.process.poll() is None:
            assert time.monotonic() < latest, f"it doesn't end: {self.seen[-2000:]!r}"
            self._read(0.1)
        while self._read(0.0):
            pass
        return self.process.returncode

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def _read(self, within: float) -> bool:
        if not select.select([self._ours], [], [], within)[0]:
            return False
        with contextlib.suppress(OSError):
            self.seen += os.read(self._ours, 65536)
        return True
