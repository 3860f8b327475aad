"""Nodes on ssh hosts, the whole way, with real sshd, real links that break, and a server that dies."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.nursery import Nursery
from tests.e2e.ssh_site import SshSite, config
from tests.integrations.ssh.yard import Yard, needs_sshd

pytestmark = needs_sshd
MakeSite = Callable[..., SshSite]


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    root = tmp_path / "yard"
    root.mkdir()
    yard = Yard(root=root)
    try:
        yield yard
    finally:
        yard.sweep()


@pytest.fixture
def make_ssh_site(tmp_path: Path, nursery: Nursery, yard: Yard) -> Iterator[MakeSite]:
    made: list[SshSite] = []

    def make(changes: Mapping[str, Mapping[str, Any]] | None = None, **options: Any) -> SshSite:
        root = tmp_path / f"site{len(made)}"
        root.mkdir()
        site = SshSite(root, nursery, yard, config=config(yard, changes), **options)
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
def site(yard: Yard, make_ssh_site: MakeSite) -> SshSite:
    """Two hosts, and a server that has both."""
    for name in ("web1", "web2"):
        yard.host(name)
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
