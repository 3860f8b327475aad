"""Engines for tests end with the process that they are for."""

import subprocess
import time
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tools.engines import getting
from tools.engines.running import Engine

PATIENCE = 60.0


@pytest.mark.slow
def test_an_engine_whose_owner_was_killed_is_closed() -> None:
    why = getting.missing("podman")
    if why is not None:
        pytest.skip(why)
    owner = subprocess.Popen(["sleep", "1000"])
    engine = Engine("podman", Path(mkdtemp(prefix="muster-")), owner=owner.pid).start()
    try:
        owner.kill()
        owner.wait()
        latest = time.monotonic() + PATIENCE
        while engine.root.exists():
            assert time.monotonic() < latest, f"waited {PATIENCE:g} s in vain for {engine.root} to go"
            time.sleep(0.1)
        assert (
            not Path(f"/proc/{engine.pid}/cmdline").exists()
            or not Path(f"/proc/{engine.pid}/cmdline").read_bytes()
        )
    finally:
        if engine.root.exists():
            engine.close()
