"""Agents that are killed: the server knows within two seconds, whatever they were doing."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.client import calls
from muster.domain.command import Execution
from muster.wire.nodes import Node
from tests.e2e.site import Site, until

NOTICED = 2.0
SLACK = 3.0
"""For a machine that is busy with other tests."""
NEVER = "sleep 4242"
LEFT = 40.0
"""Until a caller has left on a busy machine: less than the two minutes that a silent node has to detach."""


@pytest.fixture
def slow(make_site: Callable[..., Site]) -> Site:
    """Its duties tick as in real life: what is noticed, is noticed without them."""
    site = make_site(pace=1.0).start()
    site.template()
    return site


def _killed(site: Site, node: Node) -> float:
    os.kill(site.body(node).agent, signal.SIGKILL)
    return time.monotonic()


def _condemned(site: Site, node: Node) -> bool:
    found = site.node(node.id)
    if found.state in ("terminating", "terminated"):
        assert found.reason == "machine_gone", found.detail
        return True
    return False


def _noticed(site: Site, node: Node, since: float) -> None:
    until(lambda: _condemned(site, node), "its end to be noticed", NOTICED + SLACK)
    assert time.monotonic() - since < NOTICED + SLACK


def test_killed_agents_are_noticed_at_once_idle_running_and_releasing(slow: Site) -> None:
    held = slow.succeeded(slow.provision(2, run="idle"))
    assert slow.release(held).status == "succeeded"
    idle, other = slow.nodes("idle")
    _noticed(slow, idle, _killed(slow, idle))

    run = slow.run("sh", "-c", NEVER, run="running", timeout=3600.0)
    (command,) = slow.commands_in("running", run)
    node = slow.node(command.node_id)
    assert node.id == other.id
    _noticed(slow, node, _killed(slow, node))
    slow.ended(run, NOTICED + SLACK)
    assert [each.state for each in slow.commands(run)] == ["lost"]

    held = slow.succeeded(slow.provision(1, run="releasing"))
    (node,) = slow.members(held)
    agent = slow.body(node).agent
    os.kill(agent, signal.SIGSTOP)  # so that it doesn't detach before it is killed
    releasing = slow.soon(slow.release, held)
    slow.node_in("releasing", node.id)
    since = _killed(slow, node)
    _noticed(slow, node, since)
    releasing.result(20.0)


@pytest.mark.slow
def test_the_caller_of_a_command_hears_at_once_that_its_agent_was_killed(
    make_site: Callable[..., Site], tmp_path: Path
) -> None:
    """Its duties come round seldom: the end itself must wake what tells the caller."""
    ticks = tmp_path / "ticks"
    site = make_site(pace=4.0, ticks=str(ticks)).start()
    site.template()
    held = site.succeeded(site.provision(1, run="called"))
    (node,) = site.members(held)
    (command,) = site.ask(
        calls.execute(
            Execution(
                argv=(
                    "sh",
                    "-c",
                    NEVER,
                )
            ),
            operation_id=held.operation_id,
        )
    )
    until(lambda: site.ask(calls.command(command.id)).state == "running", "the command to run")
    until(lambda: ticks.exists() and "commands " in ticks.read_text(), "the duty's first round")
    since = _killed(site, node)
    until(lambda: site.ask(calls.command(command.id)).state == "lost", "the loss", NOTICED + SLACK)
    assert time.monotonic() - since < NOTICED + SLACK


def test_a_hard_timeout_ends_the_wait_whatever_the_node_does(slow: Site) -> None:
    limit = 6.0
    words = ["muster", "run", "--run", "frozen", "--timeout", f"{limit:g}s", "--", "sh", "-c", NEVER]
    environment = {**os.environ, "MUSTER_DATA_DIR": str(slow.data)}
    with subprocess.Popen(
        [Path(sys.executable).with_name(words[0]), *words[1:]],
        env=environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as caller:
        run = until(
            lambda: next((each for each in slow.unfinished() if each.kind == "run"), None),
            "the run to be accepted",
        )
        (command,) = slow.commands_in("running", run)
        agent = slow.body(slow.node(command.node_id)).agent
        os.kill(agent, signal.SIGSTOP)
        try:
            _, said = caller.communicate(timeout=LEFT)
        finally:
            os.kill(agent, signal.SIGCONT)
    assert caller.returncode == 124 and "did not end within its timeout of 6 s" in said
    end = slow.operation(run.operation_id)
    assert end.status == "failed" and end.error is not None and end.error.reason == "deadline_exceeded"
    assert slow.ended(slow.child(run, "release")).status == "succeeded"
