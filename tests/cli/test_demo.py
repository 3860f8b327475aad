import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.terminal import MUSTER, Said

LAST = re.compile(r"demo: cold \d+\.\d s · warm \d+\.\d\d s \(\d+x\) · 3 nodes reused · 0 leaked")


def environment(tmp: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MUSTER_", "KEEP"))}
    return {**kept, "TMPDIR": str(tmp), **more}


def demo(tmp: Path, *words: str, **more: str) -> Said:
    done = subprocess.run(
        [*MUSTER, "demo", *words],
        capture_output=True,
        text=True,
        timeout=110,
        env=environment(tmp, **more),
        check=False,
    )
    return Said(done.returncode, done.stdout, done.stderr)


@contextmanager
def booting(tmp: Path) -> Iterator["subprocess.Popen[str]"]:
    """A demo whose nodes are just booting; asked to clean up, if the test failed to end it."""
    with subprocess.Popen(
        [*MUSTER, "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(tmp),
    ) as client:
        assert client.stdout is not None
        for line in client.stdout:
            if line.startswith("Step 3/5"):
                break
        try:
            yield client
        finally:
            if client.poll() is None:
                client.terminate()


def processes_of(directory: Path) -> list[str]:
    """Whose command line or working directory names it."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace")
            place = str((entry / "cwd").readlink())
        except OSError:
            continue
        if entry.name != str(os.getpid()) and (str(directory) in words or place.startswith(str(directory))):
            found.append(f"{entry.name}: {words}")
    return found


@pytest.mark.timeout(120)
def test_the_demo_comes_to_its_last_line_and_leaves_nothing(tmp_path: Path) -> None:
    said = demo(tmp_path)
    assert said.code == 0, said.err + said.out
    assert LAST.fullmatch(said.out.splitlines()[-1])
    assert "[2] node 3 of 3 for warm" in said.out
    assert "\033" not in said.out
    assert list(tmp_path.iterdir()) == []
    if sys.platform == "linux":
        assert processes_of(tmp_path) == []


@pytest.mark.timeout(120)
def test_a_demo_that_is_left_up_says_how_to_end_it(tmp_path: Path) -> None:
    said = demo(tmp_path, KEEP="1")
    assert said.code == 0, said.err + said.out
    directory = Path(said.out.partition("MUSTER_DATA_DIR=")[2].partition(";")[0])
    try:
        assert directory.is_dir()
        nodes = subprocess.run(
            [*MUSTER, "nodes"],
            capture_output=True,
            text=True,
            env=environment(tmp_path, MUSTER_DATA_DIR=str(directory)),
            check=True,
        )
        assert nodes.stdout.count("idle") == 3
    finally:
        ended = demo(tmp_path, "--stop", str(directory))
    assert (ended.code, ended.out) == (0, "ended; 0 leaked\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.timeout(120)
def test_a_demo_that_is_interrupted_cleans_up(tmp_path: Path) -> None:
    with booting(tmp_path) as client:
        client.send_signal(signal.SIGINT)
        client.communicate(timeout=60)
    assert client.returncode == 130
    assert list(tmp_path.iterdir()) == []
    if sys.platform == "linux":
        assert processes_of(tmp_path) == []


@pytest.mark.timeout(120)
@pytest.mark.skipif(sys.platform != "linux", reason="finds the server through /proc")
def test_a_demo_whose_server_is_killed_says_so_and_still_cleans_up(tmp_path: Path) -> None:
    with booting(tmp_path) as client:
        (server,) = [words for words in processes_of(tmp_path) if "\0serve\0" in words]
        os.kill(int(server.partition(":")[0]), signal.SIGKILL)
        _, err = client.communicate(timeout=60)
    assert client.returncode == 1
    assert err.startswith("error: the demo failed: the server stopped") and "Traceback" not in err
    assert list(tmp_path.iterdir()) == []
    assert processes_of(tmp_path) == []
