"""How long a key takes to be echoed by `muster shell` on loopback, beside a bare PTY of the same machine.

The way of a key: this terminal, `muster shell`, the server, the agent, the node's PTY, and back.
"""

import os
import pty
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from bench import Figure
from muster.integrations.process.demo_site import Site

KEYS = 200
PATIENCE = 30.0
CAT = ("sh", "-c", "stty -icanon; echo rea''dy; exec cat >/dev/null")
"""Echoes each key by the terminal itself, as a line editor would."""
TEMPLATE = '[templates.echo]\nresource_class = "small"\n'


async def measure() -> Sequence[Figure]:
    return _measure()  # in this thread: ending the site holds signals back


def _measure() -> Sequence[Figure]:
    bare = _echoes(CAT, dict(os.environ))
    site = Site.started()
    try:
        environment = {**os.environ, "MUSTER_DATA_DIR": str(site.directory), "TERM": "xterm"}
        _prepared(environment)
        through = _echoes((*_MUSTER, "shell", "echo", "--", *CAT), environment)
    finally:
        site.end()
    return [
        Figure(
            name=f"echo of a key in muster shell, {what}",
            value=_milliseconds(through, at),
            unit="ms",
            floor=_milliseconds(bare, at),
            limit=20.0 if at == _MIDDLE else None,
            lower_is_better=True,
            note=f"{KEYS} keys, one at a time; floor: a bare PTY",
        )
        for what, at in (("p50", _MIDDLE), ("p99", 0.99))
    ]


_MIDDLE = 0.5
_MUSTER = (sys.executable, "-m", "muster.cli")


def _prepared(environment: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "templates.toml"
        file.write_text(TEMPLATE)
        _run("apply", "-f", str(file), environment=environment)
    _run("provision", "--template", "echo", "--run", "echo", environment=environment)


def _run(*words: str, environment: dict[str, str]) -> None:
    subprocess.run(
        [*_MUSTER, *words], env=environment, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )


def _echoes(argv: Sequence[str], environment: dict[str, str]) -> list[float]:
    """Return the seconds from each key to its echo."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        argv, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as program:
        os.close(theirs)
        try:
            _until(ours, b"ready")
            return sorted(_echo(ours, bytes([97 + number % 26])) for number in range(KEYS))
        finally:
            program.kill()
            os.close(ours)


def _echo(terminal: int, key: bytes) -> float:
    began = time.perf_counter()
    os.write(terminal, key)
    _until(terminal, key)
    return time.perf_counter() - began


def _until(terminal: int, wanted: bytes) -> None:
    seen, latest = b"", time.monotonic() + PATIENCE
    while wanted not in seen:
        if not select.select([terminal], [], [], max(0.0, latest - time.monotonic()))[0]:
            raise TimeoutError(f"no {wanted!r} in {seen[-500:]!r}")
        seen += os.read(terminal, 65536)


def _milliseconds(seconds: Sequence[float], at: float) -> float:
    return (median(seconds) if at == _MIDDLE else seconds[int(len(seconds) * at)]) * 1e3
