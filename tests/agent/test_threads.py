"""Two threads of one agent meet at the same job: in whatever order, and nothing of a run is left."""

import os
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


@pytest.mark.parametrize(
    "state", [agent.State(attached="as-1", moving=True), agent.State(attached="as-2"), agent.State()]
)
def test_a_command_that_was_still_being_journaled_when_its_node_detached_doesnt_begin(
    tmp_path: Path, state: agent.State
) -> None:
    shell = agent.Agent(Namespace(wrap="[]", dir=str(tmp_path), dead_man=FAR, switch=""))
    for name in ("spool", "home", "work/as-1"):
        (tmp_path / name).mkdir(parents=True)
    shell.journal = os.open(tmp_path / "journal", os.O_WRONLY | os.O_CREAT, 0o600)
    shell.state = state
    order = {"id": "c1", "argv": ["touch", "done"]}
    shell.do_startcommand(agent.StartCommand(order, "as-1", "run"))
    os.close(shell.journal)
    assert shell.jobs["c1"].over.is_set() and list((tmp_path / "work/as-1").iterdir()) == []
    ends = [event for event in (shell.events.get(), shell.events.get()) if event.phase == "exited"]
    assert [end.signal for end in ends] == [15]
