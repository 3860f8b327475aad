"""Nodes as microVMs, the whole way: a real server, QEMU under emulation, the agent in a guest."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.client import calls
from muster.domain.errors import InvalidRequest
from muster.integrations.kvm.snapshots import reports, snapshots_of
from tests.e2e.site import BRISK, Site, until
from tests.integrations.kvm.yard import needs_microvms, table

BOOT = 100.0
"""Seconds for a boot under emulation, beside other tests."""
SLACK = 10.0
"""Seconds between a job's look at its clock and ours."""


def console(site: Site, machine_id: str) -> str:
    (slot,) = (slot for slot in site.slots() if slot.machine_id == machine_id)
    return slot.console.read_text()


@needs_microvms
def test_a_microvm_is_made_used_kept_warm_and_ended(make_site: Callable[..., Site], tmp_path: Path) -> None:
    machines = tmp_path / "machines"
    kvm = f'[kvm]\ncapacity = 3\naccelerator = "tcg"\ndirectory = "{machines}"\n'
    site = make_site(config=f"{BRISK}[process]\ncapacity = 0\n{kvm}", machines=machines)
    site.start()
    with pytest.raises(InvalidRequest, match="reuse"):
        site.template(provider="kvm", tables={"kvm": table()}, reuse="always")
    site.template(provider="kvm", tables={"kvm": table()})
    asked = site.ask(calls.provision(site.request(1, "cold")))
    cold = site.succeeded(asked, BOOT)
    (before,) = site.members(cold)
    site.succeeded(site.release(cold))

    script = "echo $MUSTER_RUN; cat /sys/firmware/qemu_fw_cfg/by_name/opt/muster/secret/raw; id -u"
    run = site.succeeded(site.run("sh", "-c", script, run="warm"))
    (command,) = site.commands(run)
    said = site.output(command).decode().splitlines()
    assert said[0] == "warm" and said[-1] == "0"
    assert not [line for line in said if before.machine_id in line]
    (after,) = site.members(site.child(run))
    assert after.machine_id == before.machine_id
    until(lambda: list(reports(snapshots_of(machines))), "the snapshot", BOOT)

    script = "cat /sys/class/net/eth0/address; head -c 16 /dev/urandom | base64; date +%s"
    run = site.succeeded(site.run("sh", "-c", script, count=3, run="copies"), BOOT)
    copies = {node.machine_id for node in site.members(site.child(run))} - {before.machine_id}
    assert len(copies) == 2
    for copy in copies:
        assert f"muster: restored from a snapshot as {copy}" in console(site, copy)
    told = [site.output(command).decode().split() for command in site.commands(run)]
    addresses, numbers, clocks = zip(*told, strict=True)
    assert len(set(addresses)) == len(set(numbers)) == 3
    assert all(abs(time.time() - float(clock)) < SLACK for clock in clocks)
