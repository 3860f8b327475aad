"""The command as a user types it, against a real server: in this process (fast) or in its own."""

import contextlib
import fcntl
import io
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from muster.cli import main, output

MUSTER = (sys.executable, "-m", "muster.cli")
PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        """Its JSON, which must be all that was written to stderr."""
        return json.loads(self.err)["error"]

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


class Terminal:
    """Not a real one: output is piped, so plain lines are expected."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self.directory = directory
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MUSTER_", "KEEP"))}
        self.environment = {**kept, **environment}

    def muster(self, *words: str, **more: str) -> Said:
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
        output.OutputSettings.form = output.Form.TEXT
        code: object = None
        with (
            patch.dict(os.environ, {**self.environment, **more}, clear=True),
            patch.object(sys, "argv", ["muster", *words]),
            contextlib.chdir(self.directory),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                main()
            except SystemExit as end:
                code = end.code
        assert isinstance(code, int)
        return Said(code, _text(out), _text(err))

    def typed(self, *words: str, given: str = "", **more: str) -> Said:
        """In a process of its own, with `given` on standard input."""
        done = subprocess.run(
            [*MUSTER, *words],
            cwd=self.directory,
            env={**self.environment, **more},
            input=given,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def unread(self, *words: str) -> tuple[int, str]:
        """Run with a pipe that isn't read. Return the exit code, and what was said on stderr."""
        reading, writing = os.pipe()
        os.close(reading)
        with os.fdopen(writing, "w") as closed:
            done = subprocess.run(
                [*MUSTER, *words],
                cwd=self.directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=closed,
                stderr=subprocess.PIPE,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
        return done.returncode, done.stderr

    def live(self, *words: str, until: str, sign: int | None = None, answer: bytes = b"") -> Said:
        """In a terminal of 80 columns. Once `until` is seen, `sign` is sent, or `answer` typed.

        `out` is all that was drawn.
        """
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 80, 0, 0))
        environment = {**self.environment, "TERM": "xterm-256color"}
        drawn = b""
        with subprocess.Popen(
            [*MUSTER, *words], cwd=self.directory, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
        ) as client:
            os.close(theirs)
            try:
                with contextlib.suppress(OSError):  # how Linux says that the other end is closed
                    while piece := os.read(ours, 65536):
                        drawn += piece
                        if sign is not None and until.encode() in drawn:
                            client.send_signal(sign)
                            sign = None
                        if answer and until.encode() in drawn:
                            os.write(ours, answer)
                            answer = b""
            except (
                BaseException
            ):  # the test's time is over: the pipe isn't read, so it would never end by itself
                client.kill()
                raise
            finally:
                os.close(ours)
        return Said(client.returncode, drawn.decode(errors="replace"), "")

    def started(self, words: Sequence[str]) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*MUSTER, *words],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def _text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()
