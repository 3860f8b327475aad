"""One microVM: what its process shows, how it ends, and what is refused before there is one."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from muster.domain.errors import Forbidden, InvalidRequest, Refused
from muster.integrations.kvm.accelerators import why_not
from muster.integrations.kvm.qemu import FIRST_USER, reachable
from muster.integrations.kvm.tables import QEMU, TEMPLATE, Accelerator
from muster.ports.provider import MachineState
from muster.slot_provider.provider import SlotVerifier
from muster.slots.processes import carriers
from muster.testing.provider_contract import INSTALLATION, asking, ids, until_gone
from tests.integrations.kvm.lab import PATIENCE, Lab, needs_microvms


def processes(lab: Lab, machine_id: str) -> list[int]:
    record = lab.slot(machine_id).record()
    assert record is not None
    return [pid for pid, _ in carriers({record.marker})]


@needs_microvms
async def test_a_machine_shows_no_secret_and_runs_as_a_user_of_its_own(lab: Lab) -> None:
    answer = await lab.provider().launch(asking("t1", 2, template=lab.template()))
    users = []
    for machine_id in ids(answer):
        await lab.booted(machine_id)
        (qemu,) = (pid for pid in processes(lab, machine_id) if QEMU in _argv(pid)[0])
        users.append(_user(qemu))
        assert not [word for word in _argv(qemu) if machine_id in word and ":" in word]
    own = [FIRST_USER <= user < FIRST_USER + (1 << 24) for user in users]
    assert all(own) and len(set(users)) == 2 if os.geteuid() == 0 else not any(own)
    verifier = SlotVerifier("kvm", lab.root, installation_id=INSTALLATION)
    with pytest.raises(Forbidden, match="doesn't show"):
        await verifier.verify(f"kvm:{ids(answer)[0]}:guess")


def _user(pid: int) -> int:
    return Path(f"/proc/{pid}").stat().st_uid


def _argv(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


@needs_microvms
async def test_a_machine_that_powers_itself_off_is_gone_and_its_end_is_told(lab: Lab) -> None:
    provider = lab.provider()
    answer = await provider.launch(asking("t1", template=lab.template()))
    await lab.hang_up(*ids(answer))
    async with asyncio.timeout(PATIENCE):
        (ended,) = await provider.ended()
    assert (ended.id, ended.state) == (ids(answer)[0], MachineState.GONE)
    assert not processes(lab, ended.id)


@needs_microvms
async def test_a_machine_whose_keeper_is_killed_is_ended_too(lab: Lab) -> None:
    provider = lab.provider()
    (machine_id,) = ids(await provider.launch(asking("t1", template=lab.template())))
    await lab.booted(machine_id)
    kept = lab.slot(machine_id).kept()
    assert kept is not None
    os.kill(kept.pid, signal.SIGKILL)
    await until_gone(provider, [machine_id])
    assert not [pid for pid in processes(lab, machine_id) if pid != kept.pid]


@needs_microvms
async def test_guests_never_write_to_the_image(lab: Lab) -> None:
    before = lab.disk.stat().st_mtime_ns
    provider = lab.provider()
    answer = await provider.launch(asking("t1", 2, template=lab.template()))
    for machine_id in ids(answer):
        await lab.booted(machine_id)
    await provider.terminate(ids(answer))
    await until_gone(provider, ids(answer))
    assert lab.disk.stat().st_mtime_ns == before
    assert not [each for slot in lab.slots() for each in slot.tmp.iterdir()]


@needs_microvms
@pytest.mark.parametrize("field", ["kernel", "initrd"])
async def test_a_missing_file_is_refused_by_name(lab: Lab, field: str) -> None:
    template = lab.template(**{field: "/nowhere/file"})
    with pytest.raises(Refused, match="/nowhere/file of template work is no file"):
        await lab.provider().launch(asking("t1", template=template))
    assert lab.slots() == []


@needs_microvms
async def test_a_server_without_qemu_says_how_to_get_it(lab: Lab) -> None:
    with pytest.raises(Refused, match="apt-get install qemu"):
        await lab.provider(qemu="no-such-qemu").launch(asking("t1", template=lab.template()))


@needs_microvms
def test_an_accelerator_is_judged_by_a_machine_that_ran() -> None:
    assert why_not(QEMU, Accelerator.TCG) == ""
    assert why_not("/bin/true", Accelerator.TCG) == "a tiny machine ended with status 0"
    assert why_not("no-such-qemu", Accelerator.KVM) == "no-such-qemu is not installed"


def test_guests_reach_a_loopback_server_through_their_host() -> None:
    servers = ("http://127.0.0.1:8080", "http://localhost:1", "http://[::1]:2", "https://muster.example/x")
    assert reachable(servers) == (
        "http://10.0.2.2:8080",
        "http://10.0.2.2:1",
        "http://10.0.2.2:2",
        "https://muster.example/x",
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kernel", "vmlinuz"),
        ("root", "/images/a,b"),
        ("initrd", "/a\nb"),
        ("format", "vmdk"),
        ("cmdline", "x" * 1025),
        ("cmdline", "a\nb"),
        ("kernell", "/k"),
    ],
)
def test_a_table_that_qemu_would_misread_is_refused(key: str, value: str) -> None:
    with pytest.raises(InvalidRequest, match="kvm"):
        TEMPLATE._read({"kernel": "/k", "root": "/r", key: value})
