"""Two threads of one agent meet at the same job: in whatever order, and nothing of a run is left."""

import os
import subprocess
import sys
import threading
from argparse import Namespace
from pathlib import Path

import pytest

from muster.agent import agent

FAR = 1e6


def test_what_told_a_command_s_end_and_detaching_may_remove_its_output_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = agent.Job(str(tmp_path / "c1"))
    really = os.unlink

    def beaten(path: str) -> None:
        really(path)
        raise FileNotFoundError(path)

    monkeypatch.setattr(os, "unlink", beaten)
    job.drop()
    assert list(tmp_path.iterdir()) == []


def _agent(at: Path) -> agent.Agent:
    for name in ("spool", "home", "work"):
        (at / name).mkdir(parents=True)
    shell = agent.Agent(Namespace(wrap="[]", dir=str(at), dead_man=FAR, switch=""))
    shell.made = shell.tops()
    return shell


@pytest.mark.parametrize(
    "state", [agent.State(attached="as-1", moving=True), agent.State(attached="as-2"), agent.State()]
)
def test_a_command_that_was_still_being_journaled_when_its_node_detached_doesnt_begin(
    tmp_path: Path, state: agent.State
) -> None:
    shell = _agent(tmp_path)
    (tmp_path / "work/as-1").mkdir()
    shell.journal = os.open(tmp_path / "journal", os.O_WRONLY | os.O_CREAT, 0o600)
    shell.state = state
    order = {"id": "c1", "argv": ["touch", "done"]}
    shell.do_startcommand(agent.StartCommand(order, "as-1", "run"))
    os.close(shell.journal)
    assert shell.jobs["c1"].over.is_set() and list((tmp_path / "work/as-1").iterdir()) == []
    ends = [event for event in (shell.events.get(), shell.events.get()) if event.phase == "exited"]
    assert [end.signal for end in ends] == [15]


@pytest.mark.skipif(not agent.LINUX, reason="needs /proc")
@pytest.mark.parametrize(("ran", "children"), [(False, False), (True, False), (False, True)])
def test_detaching_looks_through_the_machine_s_processes_unless_none_can_be_the_run_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ran: bool, children: bool
) -> None:
    """A look costs milliseconds, for each node on a machine. A program of the run may have left the agent's
    tree; without a program and without a child there is nothing to find."""
    shell, looks = _agent(tmp_path), 0

    def looked() -> dict[int, agent.Proc]:
        nonlocal looks
        looks += 1
        return {}

    monkeypatch.setattr(agent, "processes", looked)
    monkeypatch.setattr(agent, "childless", lambda: not children)
    shell.do_attach(agent.Attach("as-1"))
    if ran:
        job = agent.Job(str(tmp_path / "spool/c1"), "as-1")
        shell.start(job, ["true"], str(tmp_path / "work/as-1")).wait()
    shell.do_detach(agent.Detach("as-1"))
    assert (looks > 0) is (ran or children)
    assert [shell.events.get(), shell.events.get()] == [agent.Moved("as-1"), agent.Moved("")]
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.skipif(not agent.LINUX, reason="needs /proc")
def test_an_agent_has_descendants_until_the_last_one_is_reaped() -> None:
    program = """
import ctypes, os, subprocess, sys
from muster.agent.agent import childless
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
print(childless())
asleep = subprocess.Popen(["sleep", "600"])
print(childless())
asleep.kill()
os.waitid(os.P_PID, asleep.pid, os.WEXITED | os.WNOWAIT)
print(childless())
print(asleep.wait())
print(childless())
orphan = int(subprocess.check_output(["sh", "-c", "sleep 600 >/dev/null & echo $!"]))
print(childless())
os.kill(orphan, 9)
os.waitpid(orphan, 0)
print(childless())
"""
    said = subprocess.check_output([sys.executable, "-c", program], text=True).split()
    assert said == ["True", "False", "False", "-9", "True", "False", "True"]


def test_a_dead_man_that_is_due_earlier_than_before_is_not_awaited_until_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()
    monkeypatch.setattr(agent.Agent, "exit", lambda *_: ended.set())
    monkeypatch.setattr(agent.Agent, "slay_all", lambda *_: None)
    shell = _agent(tmp_path)
    for seconds in (FAR, 2 * FAR, 0.01):
        shell.do_arm(agent.Arm(seconds))
    assert ended.wait(10.0)
