"""The machine we run on."""

import asyncio
import sys
from pathlib import Path

import pytest

import muster.serve
from muster.config import load
from muster.system import new_loop


def test_the_event_loop_is_uvloops_where_that_is_installed() -> None:
    uvloop = pytest.importorskip("uvloop")
    loop = new_loop()
    loop.close()
    assert isinstance(loop, uvloop.Loop)


def test_without_uvloop_the_event_loop_is_pythons_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    loop = new_loop()
    loop.close()
    assert isinstance(loop, asyncio.SelectorEventLoop)


def test_a_server_runs_on_that_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[asyncio.AbstractEventLoop] = []
    used: list[asyncio.AbstractEventLoop] = []

    def make() -> asyncio.AbstractEventLoop:
        made.append(new_loop())
        return made[-1]

    def ready(serving: muster.serve.Serving) -> None:
        used.append(asyncio.get_running_loop())
        serving.stop()

    monkeypatch.setattr(muster.serve, "new_loop", make)
    config = load(None, environment={}, flags={"port": 0, "data_dir": str(tmp_path / "data")})
    assert muster.serve.run(config, ready=ready) == muster.serve.OK
    assert used == made
