"""Hosts that can't be reached: uncertain, never gone, without new nodes until they are back."""

import asyncio
import os
import signal

import pytest

from muster.domain.errors import Refused, Throttled, Uncertain
from muster.domain.reasons import Reason
from muster.integrations.ssh import hosts
from muster.integrations.ssh.provider import SshProvider
from muster.ports.provider import MachineState
from muster.slots.tree import Slot
from muster.testing.provider_contract import PATIENCE, asking, ids, listed, until_gone
from tests.e2e.site import below, is_agent, until
from tests.integrations.ssh.lab import Lab, needs_sshd
from tests.integrations.ssh.test_contract import TEMPLATE

pytestmark = needs_sshd


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that is away is tried again at the next call."""
    monkeypatch.setattr(hosts, "RETRY", 0.0)


def two(lab: Lab) -> SshProvider:
    for name in ("web1", "web2"):
        lab.host(name)
    return lab.provider()


async def launched(provider: SshProvider, token: str, count: int) -> list[str]:
    return ids(await provider.launch(asking(token, count, template=TEMPLATE)))


def hosts_of(machine_ids: list[str]) -> list[str]:
    return sorted(each.partition("@")[2] for each in machine_ids)


def agent_of(slot: Slot) -> int:
    def look() -> int | None:
        kept = slot.kept()
        return None if kept is None else next((pid for pid in below(kept.pid) if is_agent(pid)), None)

    return until(look, f"the agent of {slot.machine_id}")


async def test_machines_of_a_host_that_is_away_are_unknown_and_those_of_others_are_known(lab: Lab) -> None:
    provider = two(lab)
    made = await launched(provider, "t1", 2)
    lab.machines["web1"].kill()
    known = await provider.describe(made)
    states = {each.partition("@")[2]: machine.state for each, machine in known.items()}
    assert states == {"web1": MachineState.UNKNOWN, "web2": MachineState.RUNNING}
    lost = next(machine for machine in known.values() if machine.state is MachineState.UNKNOWN)
    assert lost.why.startswith("cannot reach host web1: kex_exchange_identification: ")


async def test_a_listing_without_a_host_is_no_listing_and_a_find_without_it_finds_nothing_out(
    lab: Lab,
) -> None:
    provider = two(lab)
    await launched(provider, "t1", 2)
    lab.machines["web1"].kill()
    for ask in (listed(provider), provider.find("t1"), provider.find("never")):
        with pytest.raises(Uncertain, match="web1"):
            await ask


async def test_what_runs_outlives_sshd_and_is_found_again_when_the_host_is_back(lab: Lab) -> None:
    provider = two(lab)
    made = await launched(provider, "t1", 4)
    lab.machines["web1"].kill()
    with pytest.raises(Uncertain):
        await listed(provider)
    lab.machines["web1"].start()
    assert sorted(ids(await listed(provider))) == sorted(made)
    assert all(each.state is MachineState.RUNNING for each in (await provider.describe(made)).values())


async def test_a_host_that_is_away_takes_no_new_nodes_until_it_is_back(lab: Lab) -> None:
    provider = two(lab)
    lab.machines["web1"].kill()
    assert hosts_of(await launched(provider, "t1", 2)) == ["web2", "web2"]
    lab.machines["web1"].start()
    assert hosts_of(await launched(provider, "t2", 3)) == ["web1", "web1", "web2"]


async def test_if_all_hosts_are_away_nothing_is_made_and_the_server_may_try_later(lab: Lab) -> None:
    provider = two(lab)
    for machine in lab.machines.values():
        machine.kill()
    with pytest.raises(Throttled, match="no host that fits can be reached"):
        await launched(provider, "t1", 1)


async def test_a_launch_that_lacks_room_names_the_hosts_that_are_away(lab: Lab) -> None:
    provider = two(lab)
    await launched(provider, "t1", 10)
    lab.machines["web1"].kill()
    with pytest.raises(Refused, match=r"2 hosts fit; full: web2; cannot reach host web1") as caught:
        await launched(provider, "t2", 1)
    assert caught.value.reason is Reason.CAPACITY


async def test_a_termination_reaches_the_hosts_that_are_there_and_says_which_is_not(lab: Lab) -> None:
    provider = two(lab)
    made = await launched(provider, "t1", 2)
    here = [each for each in made if each.endswith("@web2")]
    lab.machines["web1"].kill()
    with pytest.raises(Uncertain, match="web1"):
        await provider.terminate(made)
    await until_gone(provider, here)
    lab.machines["web1"].start()
    await provider.terminate(made)
    await until_gone(provider, made)


async def test_a_silent_link_is_given_up_and_the_same_request_goes_on_when_it_is_mended(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = two(lab)
    made = await launched(provider, "t1", 4)
    link = lab.machines["web1"].link
    assert link is not None
    link.cut()
    monkeypatch.setattr("muster.integrations.ssh.launcher.WITHIN", 1.0)
    with pytest.raises(Uncertain, match="web1"):
        await provider.launch(asking("t1", 4, template=TEMPLATE))
    link.mend()
    async with asyncio.timeout(PATIENCE):
        while True:  # ssh's own master needs a while to see that its line is dead
            try:
                assert await launched(provider, "t1", 4) == made
                break
            except Uncertain:
                continue
    assert sorted(ids(await listed(provider))) == sorted(made)


async def test_a_session_that_breaks_is_opened_again_within_one_look(lab: Lab) -> None:
    provider = two(lab)
    made = await launched(provider, "t1", 2)
    for machine in lab.machines.values():
        assert machine.link is not None
        machine.link.reset()
    assert sorted(ids(await listed(provider))) == sorted(made)


async def test_the_end_of_a_node_is_told_while_another_host_is_away(lab: Lab) -> None:
    provider = two(lab)
    made = await launched(provider, "t1", 2)
    (victim,) = (each for each in made if each.endswith("@web2"))
    lab.machines["web1"].kill()
    async with asyncio.timeout(PATIENCE):
        os.kill(await asyncio.to_thread(agent_of, lab.machines["web2"].slot(victim)), signal.SIGKILL)
        (ended,) = await provider.ended()
    assert ended.id == victim and ended.state is MachineState.GONE
    assert ended.why == "the agent ended with signal 9 (web2)"


async def test_a_rebooted_host_says_so_of_its_machines(lab: Lab) -> None:
    provider = two(lab)
    (made,) = await launched(provider, "t1", 1)
    host = lab.machines[made.partition("@")[2]]
    slot = host.slot(made)
    started = slot.path / "started.json"
    await provider.terminate([made])
    await until_gone(provider, [made])
    started.write_text(started.read_text().replace(slot.record().boot_id, "an-earlier-boot"))  # type: ignore[union-attr]
    (known,) = (await provider.describe([made])).values()
    assert known.state is MachineState.GONE and known.why == f"the host was rebooted ({host.name})"


async def test_a_host_that_the_settings_no_longer_name_is_given_up(lab: Lab) -> None:
    provider = two(lab)
    made = await launched(provider, "t1", 2)
    inventory = lab.inventory()
    del inventory.hosts["web1"]
    without = lab.provider(inventory)
    assert hosts_of(list(await without.describe(made))) == ["web2"]
    assert hosts_of(ids(await listed(without))) == ["web2"]
