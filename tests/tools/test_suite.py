"""What `make check` does with tests that fail, in a project whose tests fail as often as they are told."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.suite import FEW

ROOT = Path(__file__).parents[2]
PLAIN = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p xdist --rootdir ."}
"""pytest starts in half the time without all the plugins."""
TEST = """
from pathlib import Path

import pytest


@pytest.mark.parametrize("times", {times})
def test_it(times, request):
    place = Path(request.node.name)
    before = len(place.read_text()) if place.exists() else 0
    place.write_text("x" * (before + 1))
    assert before >= times
"""


def suite(project: Path, times: list[int], *argv: str) -> "subprocess.CompletedProcess[str]":
    """Run tests of which each fails so many times, and passes then."""
    (project / "test_it.py").write_text(TEST.format(times=times))
    return subprocess.run(
        [sys.executable, "-m", "tools.suite", *argv],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT), **PLAIN},
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_passes_alone_is_named_and_fails_nothing(tmp_path: Path) -> None:
    done = suite(tmp_path, [0, 1])
    assert done.returncode == 0, done.stdout
    assert "1 failed, 1 passed" in done.stdout
    assert "1 passed" in done.stdout.partition("running them again, alone")[2]
    assert "passed alone, but failed beside others" in done.stdout
    assert done.stdout.endswith("  test_it.py::test_it[1]\n")


def test_what_fails_alone_too_fails_the_run(tmp_path: Path) -> None:
    done = suite(tmp_path, [0, 1, 2])
    assert done.returncode == 1
    assert "passed alone" not in done.stdout


@pytest.mark.parametrize(("count", "code"), [(FEW, 0), (FEW + 1, 1)])
def test_only_a_few_get_a_second_turn(tmp_path: Path, count: int, code: int) -> None:
    done = suite(tmp_path, [1] * count)
    assert done.returncode == code, done.stdout
    assert ("again, alone" in done.stdout) == (code == 0)


def test_what_is_wrong_with_the_run_itself_is_no_race(tmp_path: Path) -> None:
    done = suite(tmp_path, [0], "--no-such-option")
    assert done.returncode not in (0, 1)
    assert "again" not in done.stdout
