"""From the previous release to this one, with a store in use and nodes that run meanwhile."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.site import free_port, until

ROOT = Path(__file__).parents[2]
PREVIOUS = "dd35a29"
"""The last commit of 0.1.0."""


def unpacked(place: Path) -> Path:
    """The previous release, installed as a wheel beside nothing else; its directory for PYTHONPATH."""
    source = place / "source"
    source.mkdir(parents=True)
    asked = ["git", "archive", "--output", str(place / "source.tar"), PREVIOUS]
    if subprocess.run(asked, cwd=ROOT, capture_output=True, check=False).returncode:
        pytest.skip("the previous release is not in this copy's history")
    shutil.unpack_archive(place / "source.tar", source)
    built = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place / "dist")]
    subprocess.run(built, cwd=source, check=True, capture_output=True)
    (wheel,) = (place / "dist").glob("*.whl")
    uv = Path(sys.executable).with_name("uv")
    target = place / "installed"
    subprocess.run(
        [uv, "pip", "install", "--quiet", "--no-deps", "--offline", "--target", target, wheel],
        check=True,
        capture_output=True,
    )
    return target


class Release:
    """One version of Muster on one data directory."""

    def __init__(self, place: Path, data: Path, port: int, path: Path | None) -> None:
        self._port = port
        self._log = place / "server.log"
        mine = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
        self._environment = {**mine, "MUSTER_DATA_DIR": str(data), "HOME": str(place)}
        if path is not None:
            self._environment["PYTHONPATH"] = str(path)
        self._place = place
        self._server: subprocess.Popen[bytes] | None = None

    def muster(self, *words: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "muster.cli", *words],
            env=self._environment,
            cwd=self._place,
            capture_output=True,
            text=True,
            check=False,
        )
        assert code is None or done.returncode == code, f"{words}: {done.stdout}{done.stderr}"
        return done

    def asked(self, *words: str) -> Any:
        return json.loads(self.muster(*words, "--output", "json").stdout)

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._server = subprocess.Popen(
                [sys.executable, "-P", "-m", "muster.cli", "serve", "--port", str(self._port)],
                env=self._environment,
                cwd=self._place,
                stdout=log,
                stderr=log,
            )
        until(lambda: self.muster("nodes", code=None).returncode == 0, "the server to answer")

    def stop(self) -> None:
        if self._server is not None:
            self._server.terminate()
            assert self._server.wait(30) == 0
            self._server = None


@pytest.fixture
def releases(tmp_path: Path) -> Iterator[tuple[Release, Release]]:
    data, port = tmp_path / "data", free_port()
    old = Release(tmp_path, data, port, unpacked(tmp_path / "old"))
    new = Release(tmp_path, data, port, None)
    try:
        yield old, new
    finally:
        old.stop()
        new.stop()
        new.muster("down", "--yes", code=None)


@pytest.mark.timeout(300)
def test_runs_and_warm_nodes_of_the_previous_release_go_on_under_this_one(
    releases: tuple[Release, Release],
) -> None:
    old, new = releases
    old.start()
    assert old.muster("--version").stdout.split()[-1] == "0.1.0"
    old.muster("provision", "--count", "2", "--run", "before")
    old.muster("provision", "--count", "1", "--run", "warm")
    old.muster("release", "warm")
    held = {each["id"] for each in old.asked("nodes", "--state", "running")["items"]}
    old.stop()

    new.start()
    until(lambda: _ready(new) >= held, "the nodes to be heard by the new server")
    said = new.muster("exec", "before", "--", "sh", "-c", "echo still node $MUSTER_INDEX").stdout
    assert "still node 0" in said
    assert "still node 1" in said
    new.muster("release", "before")
    assert "done" in new.muster("run", "--", "echo", "done").stdout
    assert "submitted" in new.muster("events", "--last", "1000").stdout
    new.stop()

    refused = old.muster("serve", "--port", "0", code=1)
    assert "its schema is version" in refused.stderr


def _ready(release: Release) -> set[str]:
    nodes = release.asked("nodes", "--state", "running")["items"]
    return {each["id"] for each in nodes if each["health"] == "ready"}
