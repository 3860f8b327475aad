"""Nodes on ssh hosts, the whole way, with real sshd, real links that break, and a server that dies."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fakes.github import FakeGitHub
from muster.client import calls
from muster.domain.command import Execution
from tests.cli.terminal import Terminal
from tests.cli.tls import Authority, in_front
from tests.e2e.fork_server import ForkServer
from tests.e2e.shells import walk_through_a_shell
from tests.e2e.site import PATIENCE, alive, free_port, until, words_of
from tests.e2e.ssh_site import SshSite, config
from tests.e2e.workflows import Workflows, settings
from tests.integrations.ssh.lab import PYTHON, Lab, needs_sshd

pytestmark = needs_sshd
MakeSite = Callable[..., SshSite]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    root = tmp_path / "lab"
    root.mkdir()
    lab = Lab(root=root)
    try:
        yield lab
    finally:
        lab.sweep()


@pytest.fixture
def make_ssh_site(tmp_path: Path, fork_server: ForkServer, lab: Lab) -> Iterator[MakeSite]:
    made: list[SshSite] = []

    def make(
        changes: Mapping[str, Mapping[str, Any]] | None = None, more: str = "", **options: Any
    ) -> SshSite:
        root = tmp_path / f"site{len(made)}"
        root.mkdir()
        site = SshSite(root, fork_server, lab, config=config(lab, changes, more), **options)
        made.append(site)
        site.start()
        site.template()
        return site

    try:
        yield make
    finally:
        for site in made:
            site.close()


@pytest.fixture
def site(lab: Lab, make_ssh_site: MakeSite) -> SshSite:
    """Two hosts, and a server that has both."""
    for name in ("web1", "web2"):
        lab.host(name)
    return make_ssh_site()


def test_nodes_are_made_on_hosts_used_kept_warm_and_ended(site: SshSite) -> None:
    cold = site.succeeded(site.provision(4, run="cold"))
    before = sorted(node.machine_id for node in site.members(cold))
    assert sorted(each.partition("@")[2] for each in before) == ["web1", "web1", "web2", "web2"]
    site.succeeded(site.release(cold))

    run = site.succeeded(site.run("sh", "-c", "echo $MUSTER_RUN", count=4, run="warm"))
    assert [site.output(each) for each in site.commands(run)] == [b"warm\n"] * 4
    assert sorted(node.machine_id for node in site.members(site.child(run))) == before
    site.verify()


def test_files_come_and_go_and_what_a_run_left_is_wiped_before_the_next(
    site: SshSite, tmp_path: Path
) -> None:
    terminal = Terminal(tmp_path, {"MUSTER_DATA_DIR": str(site.data)})
    sent = tmp_path / "sent"
    sent.mkdir()
    (sent / "input.txt").write_text("from here")
    script = (
        "cat input.txt > result.txt; echo left > left.txt; echo left > ~/left.txt; "
        "setsid sleep 600 & echo $! > $TMPDIR/pid; cp $TMPDIR/pid .; echo $PWD"
    )
    words = ("run", "-t", "ci", "--count", "2", "--sync", str(sent), "--get", "result.txt", "--get", "pid")
    said = terminal.muster(*words, "--results", str(tmp_path / "results"), "--", "sh", "-c", script)
    assert said.code == 0, said.err
    results = sorted((tmp_path / "results").rglob("result.txt"))
    assert [path.read_text() for path in results] == ["from here"] * 2
    daemons = [int(path.read_text()) for path in (tmp_path / "results").rglob("pid")]
    until(lambda: len(site.nodes("idle")) == 2, "both nodes to be idle again")
    assert alive(daemons) == []
    left = [path for machine in site.lab.machines.values() for path in machine.directory.rglob("left.txt")]
    assert left == []
    again = site.succeeded(site.run("sh", "-c", "ls -A; ls -A $TMPDIR", count=2, run="next"))
    assert [site.output(each) for each in site.commands(again)] == [b"", b""]
    site.verify()


def test_a_person_looks_into_a_node_on_a_host(site: SshSite, tmp_path: Path) -> None:
    site.succeeded(site.provision(1, run="look"))
    walk_through_a_shell(site, tmp_path, "look")


def trusting(authority: Authority, place: Path) -> Path:
    """A Python of the host whose machine trusts the authority."""
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", place], check=True)
    (packages,) = place.glob("lib/python*/site-packages")
    own = f"import os; os.environ['SSL_CERT_FILE'] = {str(authority.file)!r}\n"
    (packages / "trusted.pth").write_text(own)
    return place / "bin" / "python"


def test_shells_and_copies_go_through_tls_at_both_ends(
    lab: Lab, fork_server: ForkServer, tmp_path: Path
) -> None:
    """A proxy speaks TLS in front of the server, for the person and for the agent."""
    authority = Authority(tmp_path)
    python = trusting(authority, tmp_path / "python")
    lab.host("web1")
    root = tmp_path / "site"
    root.mkdir()
    site = SshSite(root, fork_server, lab)
    with in_front(site.url, authority.context("localhost")) as port:
        url = f"https://localhost:{port}"
        changes = {"web1": {"python": str(python)}}
        site.reconfigure(config(lab, changes, f'[server]\npublic_url = "{url}"'))
        try:
            site.start()
            site.template()
            site.succeeded(site.provision(1, run="look"))
            token = (site.data / "admin.token").read_text().strip()
            given = {"MUSTER_SERVER": url, "MUSTER_TOKEN": token, "MUSTER_CA_FILE": str(authority.file)}
            walk_through_a_shell(site, tmp_path, "look", environment=given)
        finally:
            site.close()


def test_an_agent_that_is_killed_is_noticed_and_its_tree_is_ended(site: SshSite) -> None:
    made = site.succeeded(site.provision(2))
    victim, other = site.members(made)
    site.ask(
        calls.execute(
            Execution(
                argv=(
                    "sleep",
                    "600",
                )
            ),
            operation_id=made.operation_id,
            key="k",
        )
    )
    body = site.body(victim)
    until(lambda: body.jobs, "a command to run")
    tree = body.tree()
    os.kill(body.agent, signal.SIGKILL)
    gone = site.node_in("terminated", victim.id)
    assert gone.reason == "machine_gone"
    assert alive(tree) == []
    assert site.node(other.id).state == "running"
    site.verify()


def test_a_server_that_is_killed_finds_its_nodes_and_their_jobs_again(site: SshSite) -> None:
    run = site.run("sh", "-c", "echo begun; sleep 4; echo done", count=2)
    site.commands_in("running", run, 2)
    site.restart()
    end = site.succeeded(run)
    assert [site.output(each) for each in site.commands(end)] == [b"begun\ndone\n"] * 2
    site.verify()


@pytest.mark.parametrize(
    "moment", ["launch:planned", "launch:calling", "launch:settled", "node:adopt", "node:joined"]
)
def test_a_server_that_dies_at_a_step_of_a_provision_leaks_and_doubles_nothing(
    site: SshSite, moment: str
) -> None:
    site.doom(moment)
    asked = site.soon(site.provision, 3)
    assert site.gone() == -signal.SIGKILL
    site.start()
    site.succeeded(asked.result(PATIENCE))
    assert len(site.nodes("running")) == 3
    assert sum(slot.locked() for slot in site.slots()) == 3
    site.verify()


def test_a_host_that_is_away_for_a_while_loses_no_job(site: SshSite) -> None:
    run = site.run("sh", "-c", "sleep 6; echo done", count=2)
    site.commands_in("running", run, 2)
    machine = site.lab.machines["web1"]
    machine.kill()
    until(lambda: "cannot reach a host" in site.words(), "the server to notice")
    more = site.succeeded(site.provision(2, run="meanwhile"))
    assert {node.machine_id.partition("@")[2] for node in site.members(more)} == {"web2"}
    end = site.succeeded(run)
    assert [site.output(each) for each in site.commands(end)] == [b"done\n"] * 2
    machine.start()
    until(lambda: "the host is back" in site.words(), "the server to be back")
    site.verify()


def test_a_node_on_a_host_that_is_away_is_terminated_when_the_host_is_back(site: SshSite) -> None:
    made = site.succeeded(site.provision(2))
    far = next(node for node in site.members(made) if node.machine_id.endswith("@web1"))
    near = next(node for node in site.members(made) if node.machine_id.endswith("@web2"))
    body = site.body(far)
    machine = site.lab.machines["web1"]
    machine.kill()
    os.kill(body.agent, signal.SIGSTOP)  # the node is as silent as its host
    site.ask(calls.terminate(near.id))
    site.ask(calls.terminate(far.id))
    site.node_in("terminated", near.id)
    assert site.node(far.id).state == "terminating"
    machine.start()
    site.node_in("terminated", far.id)
    assert alive(body.tree()) == []
    site.verify()


def test_machines_that_an_operator_ends_are_noticed_and_strangers_are_left_alone(site: SshSite) -> None:
    made = site.succeeded(site.provision(1))
    (node,) = site.members(made)
    body = site.body(node)
    stranger = site.machine(node).directory / "inst-of-another" / "l-0123"
    stranger.mkdir(parents=True)
    (stranger / "note").write_text("mine")
    for pid in reversed(body.tree()):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert site.node_in("terminated", node.id).reason == "machine_gone"
    assert (stranger / "note").read_text() == "mine"
    site.verify()


def test_a_host_without_a_way_to_the_server_gets_one_through_a_tunnel(
    lab: Lab, make_ssh_site: MakeSite
) -> None:
    machine = lab.host("web1")
    port = free_port()
    site = make_ssh_site({"web1": {"tunnel": port}})
    made = site.succeeded(site.provision(2))
    argv = words_of(site.body(site.members(made)[0]).agent)
    assert f"http://127.0.0.1:{port}".encode() in argv and site.url.encode() not in argv
    assert machine.link is not None
    machine.link.reset()
    until(lambda: len(site.nodes("running")) == 2, "both nodes to run on")
    run = site.ask(
        calls.execute(
            Execution(
                argv=(
                    "echo",
                    "through",
                )
            ),
            operation_id=made.operation_id,
            key="k",
        )
    )
    assert run is not None
    site.restart()
    site.succeeded(site.run("true", run="after"))
    site.verify()


def test_a_workflow_gets_runners_on_ssh_hosts_and_the_same_ones_again(
    lab: Lab, make_ssh_site: MakeSite, tmp_path: Path
) -> None:
    for name in ("web1", "web2"):
        lab.host(name)
    github = FakeGitHub().start()
    try:
        site = make_ssh_site(more=settings(github, tmp_path / "token"))
        site.template(runtime="github")
        world = Workflows(site, github, tmp_path / "steps")
        first = world.begin()
        cold = world.step(first, mode="provision", template="ci", instance_count="2").done()
        jobs = world.jobs(first, cold.outputs["label"], 2)
        assert [job.conclusion for job in jobs] == ["success"] * 2
        assert not any("REG" in job.output or "ACTIONS_RUNNER_INPUT" in job.output for job in jobs)
        world.step(first, mode="release").done()
        until(lambda: world.states() == ["idle", "idle"], "clean nodes")
        assert world.runners() == []
        second = world.begin()
        warm = world.step(second, mode="provision", template="ci", instance_count="2").done()
        assert warm.nodes == cold.nodes
        world.step(second, mode="release").done()
        site.verify()
    finally:
        github.stop()
