"""Agents that are killed at each stage of their life. What was asked for ends, and no machine is lost."""

import os
import signal
from collections.abc import Callable

import pytest

from muster.client import calls
from tests.e2e.site import Site, alive, until

HANGS = "sleep 1000"


def test_an_agent_that_dies_while_it_is_idle_fails_no_provision(site: Site) -> None:
    site.template(attach_timeout=3.0)
    first = site.succeeded(site.provision(2))
    dead = site.members(first)[0]
    site.release(first)
    os.kill(site.body(dead).agent, signal.SIGKILL)
    second = site.succeeded(site.provision(2, run="next"))
    assert dead.id not in {member.node_id for member in second.members}
    site.node_in("terminated", dead.id)


def test_an_agent_that_dies_while_it_is_claimed_is_replaced(site: Site) -> None:
    site.template(attach_timeout=3.0)
    first = site.succeeded(site.provision(1))
    (dead,) = site.members(first)
    site.release(first)
    agent = site.body(dead).agent
    os.kill(agent, signal.SIGSTOP)
    asked = site.ask(calls.provision(site.request(1, "next")))
    site.node_in("claimed", dead.id)
    os.kill(agent, signal.SIGKILL)
    (member,) = site.succeeded(asked).members
    assert member.node_id != dead.id
    assert site.node_in("terminated", dead.id).reason in ("attach_failed", "machine_gone")


def test_agents_that_die_while_booting_running_and_releasing_are_noticed(site: Site) -> None:
    site.template("slow", boot_script=HANGS)
    booting = site.ask(calls.provision(site.request(1, "booting", template="slow")))
    running = site.run(*HANGS.split(), run="running")
    held = site.succeeded(site.provision(1, run="releasing"))
    site.commands_in("running", running)
    (run_node,) = site.members(site.child(running))
    (held_node,) = site.members(held)
    (boot_node,) = until(lambda: site.nodes("created", template="slow"), "a node that boots")
    until(lambda: site.node(boot_node.id).joined_at, "it to join")

    agent = site.body(held_node).agent
    os.kill(agent, signal.SIGSTOP)
    releasing = site.ask(calls.release(operation_id=held.operation_id))
    site.node_in("releasing", held_node.id)
    for pid in (agent, site.body(boot_node).agent, site.body(run_node).agent):
        os.kill(pid, signal.SIGKILL)

    end = site.ended(booting)
    assert end.status == "failed" and end.error is not None
    assert end.error.reason == "machine_gone" and end.error.message
    assert site.ended(releasing).status == "succeeded"
    end = site.ended(running)
    assert (end.status, [command.state for command in site.commands(end)]) == ("failed", ["lost"])
    assert end.result != "exit 0"
    for node in (boot_node, run_node, held_node):
        assert site.node_in("terminated", node.id).reason == "machine_gone"


@pytest.mark.parametrize("isolation", ["auto", "none"])
@pytest.mark.parametrize("cgroups", [True, False], ids=["cgroups", "no-cgroups"])
def test_a_keeper_that_is_killed_takes_its_whole_node_with_it(
    make_site: Callable[..., Site], isolation: str, cgroups: bool
) -> None:
    site = make_site(config=f'[process]\nisolation = "{isolation}"\n', cgroups=cgroups).start()
    site.template()
    running = site.run("sh", "-c", "setsid sleep 1000 & sleep 1000")
    site.commands_in("running", running)
    (node,) = site.members(site.child(running))
    body = site.body(node)
    until(lambda: len(body.jobs) >= 3, "its processes")
    tree = body.tree()
    os.kill(body.keeper, signal.SIGKILL)
    site.ask(calls.terminate(node.id))
    assert site.ended(running).result != "exit 0"
    site.node_in("terminated", node.id)
    assert alive(tree) == []
