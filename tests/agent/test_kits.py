"""Kits on a real agent: a program over standard input, its first word, its end, and what is left of it."""

from collections.abc import Callable
from pathlib import Path

from tests.agent.plane import Plane, Running, alive

SECRET = "s3cret-in-the-kit"
SERVES = f"""
import os, signal, subprocess, sys, time
secret = {SECRET!r}
place = os.environ["MUSTER_HOME"] + "/../seen"
child = subprocess.Popen(["sleep", "600"])
open("left-behind", "w").close()
with open(place, "w") as file:
    file.write(f"{{os.getpid()}} {{child.pid}}")
def end(*_):
    open(place + ".told", "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
time.sleep(600)
"""


def _attach(plane: Plane, program: str) -> None:
    plane.kit = program
    plane.tell("attach", assignment_id="as-1", run="run-1", kit=True)


def _everything_of(pid: int) -> bytes:
    return b"".join(Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ"))


def test_a_kit_runs_while_the_node_is_attached_and_is_told_before_it_is_ended(
    plane: Plane, start: Callable[..., Running]
) -> None:
    node = start()
    _attach(plane, SERVES)
    plane.wait(lambda: {"attached": "as-1"} in plane.reports, "attached")
    pids = [int(each) for each in (node.folder / "seen").read_text().split()]
    assert all(alive(pid) for pid in pids)
    for pid in (node.process.pid, *pids):
        assert SECRET.encode() not in _everything_of(pid), "only the program itself knows its secret"
    plane.detach()
    plane.wait(lambda: {"detached": "as-1"} in plane.reports, "detached")
    assert (node.folder / "seen.told").exists()
    assert not any(alive(pid) for pid in pids)
    assert not list(node.folder.rglob("left-behind"))
    kept = [path for path in node.folder.rglob("*") if path.is_file()]
    assert not any(SECRET.encode() in path.read_bytes() for path in kept)
    assert SECRET not in node.log


def test_a_kit_that_dies_of_being_told_to_end_has_not_failed(
    plane: Plane, start: Callable[..., Running]
) -> None:
    start()
    _attach(plane, "print('ready', flush=True)\nimport time\ntime.sleep(600)")
    plane.wait(lambda: {"attached": "as-1"} in plane.reports, "attached")
    plane.detach()
    plane.wait(lambda: {"detached": "as-1"} in plane.reports, "detached")
    assert not any("failed" in report for report in plane.reports)


def test_a_kit_that_ends_gives_the_node_back_and_a_new_one_can_follow(
    plane: Plane, start: Callable[..., Running]
) -> None:
    node = start()
    _attach(plane, "print('one job', flush=True)")
    plane.wait(lambda: {"detached": "as-1"} in plane.reports, "detached")
    _attach(plane, "print('ready', flush=True)\nimport time\ntime.sleep(600)")
    plane.tell("attach", assignment_id="as-2", run="run-2", kit=True)
    plane.wait(lambda: {"attached": "as-2"} in plane.reports, "attached again")
    assert list((node.folder / "work").iterdir())


def test_a_kit_that_fails_says_why(plane: Plane, start: Callable[..., Running]) -> None:
    start()
    _attach(plane, "raise SystemExit('no runner for you')")
    plane.wait(lambda: any("failed" in report for report in plane.reports), "the failure")
    told = next(report for report in plane.reports if "failed" in report)
    assert told["failed_assignment"] == told["detached"] == "as-1"
    assert told["failed"].splitlines() == ["attaching ended with 1", "no runner for you"]
