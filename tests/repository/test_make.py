"""`make sandbox` and `make browser`, on machines that have what they see to, can get it, or can't."""

import os
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
BROWSING = "Installing Chromium for the browser tests\n"
NO_BROWSER = (
    "error: cannot run the browser tests: there is no {}; install it (apt-get install chromium),"
    " or name a Chromium: MUSTER_BROWSER=/path/to/chromium\n"
)


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
        done = self.run("sandbox")
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def run(self, target: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        assert MAKE is not None
        return subprocess.run(
            [MAKE, "--no-print-directory", "-s", "-C", str(ROOT), target, f"SHELL={self.directory}/sh"],
            env={"PATH": str(self.directory), "MACHINE": str(self.directory), **environment},
            capture_output=True,
            text=True,
            check=False,
        )

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
      for program in bwrap chromium sshd; do touch "$MACHINE/$program"; chmod 755 "$MACHINE/$program"; done ;;
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


def planned(target: str) -> str:
    """What make would do, with the targets that it would start for it."""
    assert MAKE is not None
    argv = [MAKE, "-C", str(ROOT), "--dry-run", "--always-make", target]
    own = {"PATH": os.environ["PATH"]}  # not the words of a make that runs these tests
    return subprocess.run(argv, env=own, capture_output=True, text=True, check=True).stdout


def test_check_sees_to_it_and_demo_does_not() -> None:
    assert "Installing bubblewrap" in planned("check") and "Installing openssh-server" in planned("check")
    assert "Installing bubblewrap" not in planned("demo") + planned("test")


def test_sshd_is_had_got_or_missed_as_the_sandbox_is(machine: Machine) -> None:
    if Path("/usr/sbin/sshd").exists():
        assert machine.run("sshd").stdout == ""
        return
    machine.has("id", "echo 1000")
    assert "will skip; get them with: apt-get install openssh-server" in machine.run("sshd").stdout
    machine.has("id", "echo 0")
    machine.has("apt-get", APT)
    assert machine.run("sshd").stdout == "Installing openssh-server for the tests of ssh hosts\n"
    assert machine.run("sshd").stdout == ""


# --- the browser ----------------------------------------------------------------------------------


def test_where_a_browser_is_nothing_is_done_or_said(machine: Machine) -> None:
    machine.has("apt-get", APT)
    machine.has("chromium", "true")
    done = machine.run("browser")
    assert (done.returncode, done.stdout, done.stderr, machine.asked) == (0, "", "", [])


def test_root_gets_a_browser_quietly(machine: Machine) -> None:
    machine.has("apt-get", APT)
    done = machine.run("browser")
    assert (done.returncode, done.stdout, done.stderr) == (0, BROWSING, "")
    assert machine.asked == ["asked-1-update", "asked-2-install"]


@pytest.mark.parametrize("who", ["0", "1000"])
def test_without_a_browser_it_fails_and_says_how_to_get_one(machine: Machine, who: str) -> None:
    machine.has("id", f"echo {who}")
    machine.has("apt-get", "exit 100")
    done = machine.run("browser")
    assert done.returncode != 0
    assert done.stdout == (BROWSING if who == "0" else "")
    assert done.stderr.startswith(NO_BROWSER.format("chromium"))


def test_a_browser_that_is_named_is_taken_at_its_word(machine: Machine) -> None:
    machine.has("apt-get", APT)
    machine.has("my-chrome", "true")
    assert machine.run("browser", MUSTER_BROWSER="my-chrome").returncode == 0
    done = machine.run("browser", MUSTER_BROWSER="/nowhere/chrome")
    assert done.returncode != 0 and machine.asked == []
    assert done.stderr.startswith(NO_BROWSER.format("/nowhere/chrome"))


def test_check_needs_a_browser_and_test_does_without() -> None:
    assert "Installing Chromium" in planned("check")
    assert "Installing Chromium" not in planned("test")
