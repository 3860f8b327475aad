"""`muster down`: all nodes and the server of this machine, after a question, and with proof."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.integrations.process.demo_site import Site
from tests.cli.terminal import Terminal
from tests.cli.test_demo import processes_of


@pytest.fixture
def held() -> Iterator[tuple[Site, Terminal]]:
    """A server with a warm node that stays, and two that a run has."""
    site = Site.started('[templates.small]\nresource_class = "small"\nmin_idle = 1\n')
    terminal = Terminal(site.directory, {"MUSTER_DATA_DIR": str(site.directory)})
    try:
        ready = terminal.muster("provision", "-t", "small", "-n", "2", "--run", "held")
        assert ready.code == 0, ready.err
        yield site, terminal
    finally:
        site.end()


def locked(directory: Path) -> int:
    return Site.found(directory).leftovers()


def test_down_asks_while_runs_have_nodes_and_then_leaves_nothing(held: tuple[Site, Terminal]) -> None:
    site, terminal = held
    refused = terminal.typed("down")
    assert refused.code == 2 and "runs use 2 nodes. All nodes" in refused.err and "--yes" in refused.err
    elsewhere = terminal.muster("down", "--yes", MUSTER_SERVER=site.url)
    assert elsewhere.code == 2 and "unset MUSTER_SERVER" in elsewhere.err
    assert terminal.muster("nodes").code == 0 and locked(site.directory) >= 2, "nothing was ended"
    done = terminal.typed("down", "--yes")
    assert done.code == 0, done.err
    assert "ending the server\n✔ all nodes are terminated, the server is stopped" in done.out
    assert locked(site.directory) == 0 and processes_of(site.directory) == []
    again = terminal.muster("down", "-o", "json")
    assert again.json == {"server": "not running", "nodes_ended": 0, "left": 0}


def test_down_ends_nodes_whose_server_was_killed(held: tuple[Site, Terminal]) -> None:
    site, terminal = held
    os.kill(site._pid, signal.SIGKILL)
    assert site._child is not None
    site._child.wait()
    assert locked(site.directory) >= 2
    refused = terminal.typed("down")
    assert refused.code == 2 and "no server knows the runs of " in refused.err
    done = terminal.muster("down", "--yes", "-o", "json").json
    assert done["server"] == "not running" and done["nodes_ended"] >= 2 and done["left"] == 0
    assert locked(site.directory) == 0 and processes_of(site.directory) == []
