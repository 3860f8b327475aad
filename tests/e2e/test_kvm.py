"""Nodes as microVMs, the whole way: a real server, QEMU under emulation, the agent in a guest."""

from collections.abc import Callable
from pathlib import Path

import pytest

from muster.client import calls
from muster.domain.errors import InvalidRequest
from tests.e2e.site import BRISK, Site
from tests.integrations.kvm.yard import needs_microvms, table

BOOT = 100.0
"""Seconds for a boot under emulation, beside other tests."""


@needs_microvms
def test_a_microvm_is_made_used_kept_warm_and_ended(make_site: Callable[..., Site], tmp_path: Path) -> None:
    machines = tmp_path / "machines"
    kvm = f'[kvm]\ncapacity = 2\naccelerator = "tcg"\ndirectory = "{machines}"\n'
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
