"""`make sandbox`, on machines that have bubblewrap, can get it, or can't; none of them is this one."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAKE = shutil.which("make")
pytestmark = pytest.mark.skipif(MAKE is None, reason="make is not installed")
NOTE = (
    "note: bubblewrap is missing, so the sandbox tests will skip; get them with: apt-get install bubblewrap\n"
)
INSTALLING = "Installing bubblewrap for the sandbox tests\n"


class Machine:
    """Its programs are those of one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name in ("sh", "touch", "chmod"):
            found = shutil.which(name)
            assert found is not None
            (directory / name).symlink_to(found)
        self.has("id", "echo 0")

    def has(self, name: str, script: str) -> None:
        (self.directory / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.directory / name).chmod(0o755)

    def make(self) -> str:
        assert MAKE is not None
        done = subprocess.run(
            [MAKE, "--no-print-directory", "-C", str(ROOT), "sandbox", f"SHELL={self.directory}/sh"],
            env={"PATH": str(self.directory), "MACHINE": str(self.directory)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    @property
    def asked(self) -> list[str]:
        """The verbs that apt-get was called with."""
        return [path.name for path in sorted(self.directory.glob("asked-*"))]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


APT = """
for word in "$@"; do
  case "$word" in
    update) touch "$MACHINE/asked-1-update" ;;
    install) touch "$MACHINE/asked-2-install"
      [ -e "$MACHINE/asked-1-update" ] || exit 100
      touch "$MACHINE/bwrap"; chmod 755 "$MACHINE/bwrap" ;;
  esac
done
echo "a lot of words"
"""


def test_where_bubblewrap_is_nothing_is_done_or_said(machine: Machine) -> None:
    machine.has("bwrap", "true")
    machine.has("apt-get", APT)
    assert (machine.make(), machine.asked) == ("", [])


def test_root_gets_it_quietly_with_fresh_lists_if_they_are_old(machine: Machine) -> None:
    machine.has("apt-get", APT)
    assert machine.make() == INSTALLING
    assert machine.asked == ["asked-1-update", "asked-2-install"]
    assert machine.make() == ""


def test_a_machine_that_cannot_get_it_is_told_in_one_line_and_nothing_fails(machine: Machine) -> None:
    machine.has("apt-get", 'echo "no network" >&2; exit 100')
    assert machine.make() == INSTALLING + NOTE


@pytest.mark.parametrize("apt", [True, False])
def test_who_may_not_install_is_told_how_to_get_it(machine: Machine, apt: bool) -> None:
    machine.has("id", "echo 1000")
    if apt:
        machine.has("apt-get", APT)
    assert (machine.make(), machine.asked) == (NOTE, [])


def test_check_sees_to_it_and_demo_does_not() -> None:
    rules = (ROOT / "Makefile").read_text(encoding="utf-8").splitlines()
    named = {line.partition(":")[0]: line for line in rules if line.startswith(("check:", "demo:", "test:"))}
    assert "sandbox" in named["check"]
    assert "sandbox" not in named["demo"] + named["test"]
