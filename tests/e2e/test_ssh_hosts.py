"""Hosts with a network, a user, a disk and a boot of their own."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from muster.domain.reasons import Reason
from muster.integrations.ssh.hosts import RemoteHost
from muster.testing.provider_contract import asking, ids, listed
from tests.e2e.site import free_port, until
from tests.e2e.test_ssh import MakeSite, lab, make_ssh_site
from tests.integrations.ssh.lab import Lab, needs_sshd
from tests.integrations.ssh.namespaces import UID, USER, Network, needs_namespaces, of_a_user, rebootable
from tests.integrations.ssh.test_contract import TEMPLATE

__all__ = ["lab", "make_ssh_site"]
pytestmark = [needs_sshd, needs_namespaces]


@pytest.fixture
def network() -> Iterator[Network]:
    network = Network(name=f"mt{os.getpid()}", number=os.getpid() % 16_000)
    try:
        network.make()
        yield network
    finally:
        network.remove()


@pytest.fixture
def open_lab() -> Iterator[Lab]:
    """In a directory that other users may enter: pytest's own are root's alone."""
    with TemporaryDirectory(prefix="muster-", dir="/var/tmp") as place:
        Path(place).chmod(0o755)
        lab = Lab(root=Path(place))
        try:
            yield lab
        finally:
            lab.sweep()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=80m", "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_pulled_cable_loses_no_job_of_a_host_that_only_ssh_reaches(
    lab: Lab, network: Network, make_ssh_site: MakeSite
) -> None:
    machine = network.host(lab)
    site = make_ssh_site({"far": {"tunnel": free_port()}})
    assert machine.address != "127.0.0.1"
    run = site.run("sh", "-c", "sleep 8; echo done", count=2)
    site.commands_in("running", run, 2)
    network.cut()
    until(
        lambda: "cannot reach a host" in site.words() or "no answer" in site.words(), "the server to notice"
    )
    assert {node.state for node in site.nodes() if node.run} == {"running"}
    network.mend()
    end = site.succeeded(run)
    assert [site.output(each) for each in site.commands(end)] == [b"done\n"] * 2
    site.verify()


def test_a_reboot_is_noticed_and_told(lab: Lab, make_ssh_site: MakeSite) -> None:
    machine, boot = rebootable(lab, "web1")
    site = make_ssh_site()
    made = site.succeeded(site.provision(1))
    (node,) = site.members(made)
    tree = site.body(node).tree()
    machine.kill()
    for pid in reversed(tree):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    boot.write_text("second-boot\n")
    machine.start()
    gone = site.node_in("terminated", node.id)
    assert gone.reason == "machine_gone"
    details = [str(event.detail) for event in site.feed() if event.entity_id == node.id]
    assert any("the host was rebooted (web1)" in each for each in details), details
    site.verify()


def test_an_ordinary_user_is_enough_and_its_nodes_have_rlimits(
    open_lab: Lab, tmp_path: Path, fork_server: object
) -> None:
    from tests.e2e.fork_server import ForkServer
    from tests.e2e.ssh_site import SshSite, config

    assert isinstance(fork_server, ForkServer)
    of_a_user(open_lab, "web1")
    root = tmp_path / "site"
    root.mkdir()
    site = SshSite(root, fork_server, open_lab, config=config(open_lab, {"web1": {"user": USER}}))
    try:
        site.start()
        site.template()
        script = "id -u; python3 -c 'bytearray(2 << 30)' 2>&1 | tail -1"
        run = site.succeeded(site.run("sh", "-c", script, count=2))
        assert [site.output(each) for each in site.commands(run)] == [f"{UID}\nMemoryError\n".encode()] * 2
        site.verify()
    finally:
        site.close()


async def test_a_full_disk_gives_no_room_and_says_so(lab: Lab, small_disk: Path) -> None:
    for name in ("web1", "web2"):
        lab.host(name)
    provider = lab.provider(lab.inventory({"web1": {"directory": str(small_disk)}}))
    (small_disk / "ballast").write_bytes(bytes(40 << 20))
    try:
        answer = await provider.launch(asking("t1", 6, template=TEMPLATE))
        assert len(answer.machines) == 5 and answer.reason is Reason.CAPACITY
        assert answer.message == "5 of 6 places: 2 hosts fit; web1: its disk is full: 40 MiB are free"
    finally:
        await provider.close()


async def test_a_disk_that_fills_up_in_the_middle_leaves_a_partial_launch_that_a_repeat_confirms(
    lab: Lab, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("web1", "web2"):
        lab.host(name)
    provider = lab.provider(lab.inventory({"web1": {"directory": str(small_disk)}}))
    really = RemoteHost.ask

    async def ask(self: RemoteHost, verb: str, **fields: object) -> object:
        if verb == "launch" and self.name == "web1":
            with suppress(OSError), (small_disk / "ballast").open("wb") as file:
                while True:
                    file.write(bytes(1 << 16))
        return await really(self, verb, **fields)  # type: ignore[arg-type]

    monkeypatch.setattr(RemoteHost, "ask", ask)
    request = asking("t1", 4, template=TEMPLATE)
    try:
        answer = await provider.launch(request)
        assert answer.reason is Reason.CAPACITY and "No space left on device" in answer.message
        assert {each.partition("@")[2] for each in ids(answer)} == {"web2"}
        assert ids(await provider.launch(request)) == ids(answer)
        assert ids(await listed(provider)) == ids(answer)
    finally:
        await provider.close()
