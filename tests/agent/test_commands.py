"""Real commands on a real agent: output, ends, whole trees killed, workspaces wiped, nothing twice."""

import ctypes
import io
import os
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from muster.agent.agent import pack
from tests.agent.plane import PATIENCE, Handler, Plane, Running, Server, alive
from tests.agent.test_shell import booted, numbers

Start = Callable[..., Running]
pytestmark = pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
UP = "while ! [ -s daemon ]; do :; done; echo up"
DAEMON = "import os,sys,time,signal\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n"
STUBBORN = DAEMON + (
    "[signal.signal(s, signal.SIG_IGN) for s in (15, 1, 2)]\nopen(sys.argv[1],'w').write(str(os.getpid()))\n"
    "time.sleep(1000)\n"
)


@pytest.fixture
def node(plane: Plane, start: Start) -> Running:
    agent = start()
    booted(plane)
    plane.attach()
    return agent


def detached(plane: Plane, assignment: str = "as-1") -> None:
    plane.detach(assignment)
    plane.wait(lambda: {"detached": assignment} in plane.reports, "detached")


def test_exit_codes_and_signals_are_told_apart(plane: Plane, node: Running) -> None:
    plane.order("c1", "sh", "-c", "exit 3")
    plane.order("c2", "sh", "-c", "kill -11 $$")
    plane.order("c3", "true")
    assert [(plane.ended(c)["exit_code"], plane.ended(c)["signal"]) for c in ("c1", "c2", "c3")] == [
        (3, None),
        (None, 11),
        (0, None),
    ]
    assert plane.states["c1"][0] == {"state": "running"} or plane.states["c1"][0]["state"] == "exited"


@pytest.mark.parametrize(
    ("argv", "code"), [(["/no/such/program"], 127), (["/etc/passwd"], 126), (["a\0b"], 126)]
)
def test_what_cant_be_started_ends_as_in_a_shell_and_says_why(
    plane: Plane, node: Running, argv: list[str], code: int
) -> None:
    plane.order("c1", *argv)
    assert plane.ended("c1")["exit_code"] == code
    assert plane.output["c1"].startswith(b"[muster-agent: cannot run it: ")


def test_the_environment_is_clean_and_carries_the_run(plane: Plane, start: Start, monkeypatch: Any) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "leak")
    agent = start()
    booted(plane)
    plane.attach()
    plane.order(
        "c1", "sh", "-c", "env; pwd; ls -ld . | cut -c1-10", env={"MINE": "yes", "MUSTER_ASSIGNMENT": "no"}
    )
    plane.ended("c1")
    text = plane.output["c1"].decode()
    for line in ("MUSTER_RUN=run-1", "MUSTER_NODE=node-1", "MUSTER_ASSIGNMENT=as-1", "MINE=yes"):
        assert f"{line}\n" in text
    assert "leak" not in text and "token" not in text and "secret" not in text
    assert f"{agent.folder}/work/as-1\ndrwx------\n" in text


def test_binary_output_arrives_byte_by_byte_the_same(plane: Plane, node: Running) -> None:
    script = "import os; [os.write(1 + i % 2, bytes(range(256))) for i in range(100)]"
    plane.order("c1", "python3", "-c", script)
    assert plane.ended("c1")["size"] == 25600
    assert plane.output["c1"] == bytes(range(256)) * 100


def test_twenty_megabytes_of_output_arrive_complete(plane: Plane, node: Running) -> None:
    plane.order("c1", "sh", "-c", "yes 0123456789abcde | head -c 20000000")
    assert plane.ended("c1")["size"] == 20_000_000
    assert plane.output["c1"] == (b"0123456789abcde\n" * 1_250_000)[:20_000_000]


def test_output_beyond_the_cap_is_discarded_and_doesnt_stop_the_command(plane: Plane, node: Running) -> None:
    def full(handler: Handler) -> bool:
        handler.answer(200, {"offset": 64 * 2**20 - 10, "full": False})
        return True

    work = node.folder / "work/as-1"
    os.mkfifo(work / "go")
    plane.order("c1", "sh", "-c", "read x <go; head -c 70000000 /dev/zero; exit 9")
    plane.fault("/commands/c1/output", full)
    plane.output["c1"] = bytearray(64 * 2**20 - 10)
    (work / "go").write_text("go\n")
    end = plane.ended("c1")
    assert end["exit_code"] == 9 and end["size"] == 64 * 2**20


def test_a_cancel_kills_the_whole_tree_even_a_daemon_that_left_it_and_ignores_sigterm(
    plane: Plane, node: Running, tmp_path: Path
) -> None:
    (tmp_path / "d.py").write_text(STUBBORN)
    script = f"sleep 1000 & echo $! >child; python3 {tmp_path}/d.py daemon; {UP}; wait"
    plane.order("c1", "sh", "-c", script)
    plane.wait(lambda: plane.output.get("c1") == b"up\n", "start")
    work = node.folder / "work/as-1"
    pids = numbers(work / "child") + numbers(work / "daemon")
    assert all(alive(pid) for pid in pids)
    plane.cancel("c1")
    plane.ended("c1")
    assert not any(alive(pid) for pid in pids)


def test_one_that_ignores_sigterm_is_killed_after_the_grace(plane: Plane, node: Running) -> None:
    plane.order("c1", "sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.1; done")
    plane.wait(lambda: plane.output.get("c1"), "start")
    plane.cancel("c1")
    assert plane.ended("c1")["signal"] == 9


def test_a_timeout_ends_it(plane: Plane, node: Running) -> None:
    plane.order("c1", "sleep", "1000", timeout=0.3)
    assert (plane.ended("c1")["signal"], plane.ended("c1")["timed_out"]) == (15, True)


def test_a_timeout_that_was_not_needed_is_not_told(plane: Plane, node: Running) -> None:
    plane.order("c1", "true", timeout=60.0)
    plane.order("c2", "sleep", "1000", timeout=60.0)
    plane.wait(lambda: "c2" in plane.states, "c2 runs")
    plane.cancel("c2")
    assert ["timed_out" in plane.ended(key) for key in ("c1", "c2")] == [False, False]


def test_standard_input_is_what_was_sent_for_it_and_else_nothing(plane: Plane, node: Running) -> None:
    plane.blobs["b1"] = bytes(range(256)) * 1000
    plane.order("c1", "cat", stdin="b1")
    plane.order("c2", "cat")
    assert (plane.ended("c1")["exit_code"], plane.ended("c2")["exit_code"]) == (0, 0)
    assert plane.output["c1"] == plane.blobs["b1"] and plane.output.get("c2", b"") == b""
    plane.order("c3", "cat", stdin="nope")
    assert plane.ended("c3")["exit_code"] == 126 and b"no archive nope" in plane.output["c3"]


def test_a_daemon_that_holds_the_output_doesnt_hold_up_the_end(plane: Plane, node: Running) -> None:
    plane.order("c1", "sh", "-c", "sleep 1000 & echo done")
    assert plane.ended("c1")["exit_code"] == 0 and plane.output["c1"] == b"done\n"


def test_detach_kills_daemons_without_a_trace_in_their_environment_and_wipes_what_was_locked(
    plane: Plane, node: Running, tmp_path: Path
) -> None:
    (tmp_path / "d.py").write_text(STUBBORN)
    mess = "mkdir -p a/b/c; touch a/b/c/f; chmod 000 a/b/c a/b; chmod 500 a; ln -s / out; touch $TMPDIR/x"
    script = f"env -i python3 {tmp_path}/d.py daemon; {mess}; {UP}; exec sleep 1000"
    plane.order("c1", "sh", "-c", script)
    plane.wait(lambda: plane.output.get("c1") == b"up\n", "start")
    daemon = numbers(node.folder / "work/as-1/daemon")[0]
    assert alive(daemon)
    detached(plane)
    assert not alive(daemon)
    assert not list((node.folder / "work").iterdir())
    assert plane.ended("c1")["signal"] == 9


def test_the_next_assignment_starts_fresh(plane: Plane, node: Running) -> None:
    plane.order("c1", "sh", "-c", "echo secret >mine")
    plane.ended("c1")
    detached(plane)
    plane.attach("as-2")
    plane.order("c2", "sh", "-c", "ls -A . $TMPDIR ../../spool; pwd")
    plane.ended("c2")
    assert b"mine" not in plane.output["c2"] and b"c1" not in plane.output["c2"]
    assert plane.output["c2"].endswith(b"work/as-2\n")


def test_killed_between_journal_and_start_it_is_lost_in_the_next_life_and_not_started(
    plane: Plane, start: Start, tmp_path: Path
) -> None:
    fetching, release = threading.Event(), threading.Event()

    def hang(handler: Handler) -> bool:
        fetching.set()
        release.wait(PATIENCE)
        handler.drop()
        return True

    plane.fault("/blobs/b1", hang)
    first = start()
    booted(plane)
    plane.attach()
    plane.order("c1", "sh", "-c", f"echo ran >>{tmp_path}/ran", archive="b1")
    assert fetching.wait(PATIENCE)
    first.kill()
    release.set()
    start()
    assert plane.ended("c1")["state"] == "lost"
    plane.order("c2", "true")
    plane.ended("c2")
    assert not (tmp_path / "ran").exists()


def test_what_ran_when_the_agent_was_killed_is_ended_and_lost_and_what_had_ended_is_known(
    plane: Plane, start: Start, server: Server, tmp_path: Path
) -> None:
    first = start()
    booted(plane)
    plane.attach()

    def away(handler: Handler) -> bool:
        handler.drop()
        return True

    plane.order("c1", "sh", "-c", f"echo $$ >{tmp_path}/pid; echo partial; exec sleep 1000")
    plane.wait(lambda: plane.output.get("c1"), "output")
    plane.fault("/commands/c2/state", away, times=100)
    plane.order("c2", "sh", "-c", "exit 6")
    journal = first.folder / "journal"
    plane.wait(lambda: '"code": 6' in journal.read_text(), "the end in the journal")
    first.kill()
    plane.faults.clear()
    start()
    assert plane.ended("c1")["state"] == "lost" and plane.output["c1"] == b"partial\n"
    assert plane.ended("c2") == {"state": "exited", "exit_code": 6, "signal": None, "size": 0}
    assert not alive(numbers(tmp_path / "pid")[0])


def tar(*members: tuple[str, bytes | None, str]) -> bytes:
    """(name, content or None, kind or link target)"""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content, link in members:
            info = tarfile.TarInfo(name)
            info.mode = 0o4755
            if content is None:
                info.type, info.linkname = (
                    (tarfile.SYMTYPE, link) if link != "fifo" else (tarfile.FIFOTYPE, "")
                )
            else:
                info.size = len(content)
            archive.addfile(info, io.BytesIO(content or b""))
    return buffer.getvalue()


def test_an_archive_is_unpacked_first_and_results_come_back(plane: Plane, node: Running) -> None:
    plane.blobs["b1"] = tar(
        ("src/run.sh", b"mkdir out; echo 42 >out/answer; cat src/alias", ""), ("src/alias", None, "run.sh")
    )
    plane.order("c1", "sh", "src/run.sh", archive="b1", collect=["out"])
    assert plane.ended("c1")["exit_code"] == 0 and plane.output["c1"].startswith(b"mkdir out")
    with tarfile.open(fileobj=io.BytesIO(plane.artifacts["c1"])) as archive:
        file = archive.extractfile("out/answer")
        assert file is not None and file.read() == b"42\n"


@pytest.mark.parametrize(
    "members",
    [
        [("../evil", b"x", "")],
        [("/tmp/evil", b"x", "")],  # noqa: S108
        [("out", None, "../.."), ("out/evil", b"x", "")],
        [("out", None, "/")],
        [("a/out", None, "../../x")],
        [("pipe", None, "fifo")],
    ],
)
def test_an_archive_that_leads_out_of_the_workspace_is_refused(
    plane: Plane, node: Running, members: Any
) -> None:
    plane.blobs["b1"] = tar(*members)
    plane.order("c1", "true", archive="b1")
    assert plane.ended("c1")["exit_code"] == 126
    assert b"workspace" in plane.output["c1"] and not list(node.folder.rglob("evil"))


@pytest.mark.parametrize("blob", [None, b"not a tar", tar(("f", os.urandom(100000), ""))[:5000]])
def test_an_archive_that_is_missing_or_broken_is_told_in_the_output(
    plane: Plane, node: Running, blob: Any
) -> None:
    if blob is not None:
        plane.blobs["b1"] = blob
    plane.order("c1", "true", archive="b1")
    assert plane.ended("c1")["exit_code"] == 126 and b"cannot run it" in plane.output["c1"]


def test_what_cant_be_collected_is_left_out_without_a_word_in_the_output(plane: Plane, node: Running) -> None:
    """The client sees which of the paths are not there, and names them."""
    paths = ["nothing", "out/b", "../../journal", "/etc/passwd", "a"]
    plane.order("c1", "sh", "-c", "mkdir out; echo 1 >a; echo 2 >out/b; exit 5", collect=paths)
    assert plane.ended("c1")["exit_code"] == 5
    assert plane.output.get("c1", b"") == b""
    with tarfile.open(fileobj=io.BytesIO(plane.artifacts["c1"])) as archive:
        assert archive.getnames() == ["out/b", "a"]


@contextmanager
def as_another_user(folder: Path) -> Iterator[None]:
    """Run as a user that permissions bind. Root only seems to be one: for files it becomes another user."""
    libc, nobody = ctypes.CDLL(None), 65534
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, nobody, nobody)
        libc.setfsuid(nobody)
    try:
        yield
    finally:
        libc.setfsuid(os.geteuid())


def test_one_that_cant_be_read_is_left_out_of_the_results_and_named() -> None:
    with TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        (folder / "locked").mkdir()
        for path in ("a", "b", "locked/c", "d/e/f"):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).touch()
        for path in ("a", "locked"):
            (folder / path).chmod(0)
        with as_another_user(folder), chdir(folder), (folder / "results.tgz").open("wb") as results:
            left = pack(results, ["b", "a", "locked", "d", "nothing"])
        with tarfile.open(folder / "results.tgz") as archive:
            assert archive.getnames() == ["b", "locked", "d", "d/e", "d/e/f"]
        assert left == ["a", "locked"]
        (folder / "locked").chmod(0o700)


def test_a_job_that_removes_the_agents_directories_harms_neither_the_agent_nor_the_next_run(
    plane: Plane, node: Running
) -> None:
    plane.order("c1", "sh", "-c", f"cd {node.folder}; rm -rf work spool home")
    assert plane.ended("c1")["exit_code"] == 0
    plane.order("c2", "true")
    assert plane.ended("c2")["exit_code"] == 127
    assert plane.output["c2"].startswith(b"[muster-agent: cannot run it: ")
    detached(plane)
    plane.attach("as-2")
    plane.order("c3", "sh", "-c", "pwd; ls -d $MUSTER_HOME")
    assert plane.ended("c3")["exit_code"] == 0
    assert plane.output["c3"].decode().splitlines() == [f"{node.folder}/work/as-2", f"{node.folder}/home"]


def test_what_a_run_leaves_outside_its_workspace_is_wiped_but_not_what_boot_made(
    plane: Plane, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private, node = tmp_path / "private", tmp_path / "node"
    (private / "kept").mkdir(parents=True)
    monkeypatch.setenv("MUSTER_WIPE", f"{private}\n{node}\n{node}/home")
    plane.boot["script"] = "echo made >$MUSTER_HOME/venv"
    start()
    booted(plane)
    plane.attach()
    secrets = f"$MUSTER_HOME/.netrc {private}/token {node}/stray"
    plane.order("c1", "sh", "-c", f"for f in {secrets}; do echo secret >$f; done; ls -d {secrets}")
    assert plane.ended("c1")["exit_code"] == 0 and plane.output["c1"].count(b"\n") == 3
    detached(plane)
    left = sorted(each.name for place in (private, node / "home", node / "work") for each in place.iterdir())
    assert left == ["kept", "venv"] and not (node / "stray").exists()


def test_a_home_replaced_by_a_link_is_not_followed(plane: Plane, node: Running, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").touch()
    plane.order("c1", "sh", "-c", f"rm -r $MUSTER_HOME; ln -s {tmp_path}/precious $MUSTER_HOME")
    assert plane.ended("c1")["exit_code"] == 0
    detached(plane)
    assert (tmp_path / "precious/file").exists()


def test_what_is_cancelled_before_it_began_is_reported_as_killed(plane: Plane, node: Running) -> None:
    plane.order("c1", "true", cancel=True)
    assert plane.ended("c1")["signal"] == 15
    plane.order("c2", "true")
    assert plane.ended("c2")["exit_code"] == 0


def test_a_workspace_replaced_by_a_link_is_wiped_without_following_it(
    plane: Plane, node: Running, tmp_path: Path
) -> None:
    (tmp_path / "precious").mkdir(mode=0o755)
    (tmp_path / "precious/file").touch()
    plane.order("c1", "sh", "-c", f"rm -r $PWD; ln -s {tmp_path}/precious $PWD; echo done")
    plane.ended("c1")
    detached(plane)
    assert (tmp_path / "precious/file").exists() and not list((node.folder / "work").iterdir())


def test_many_commands_at_once_each_end_with_their_own_output(plane: Plane, node: Running) -> None:
    keys = [f"c{number}" for number in range(20)]
    orders = [{"id": key, "argv": ["sh", "-c", f"echo {key}; exit 1"], "cancel": False} for key in keys]
    plane.tell("attach", commands=orders)
    assert [plane.ended(key)["exit_code"] for key in keys] == [1] * 20
    assert [plane.output[key] for key in keys] == [f"{key}\n".encode() for key in keys]
