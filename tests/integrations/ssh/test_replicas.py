"""Two replicas, and lives that end in between: one set of machines, and never more nodes than slots."""

import asyncio

import pytest

from muster.domain.errors import Refused, TokenSpent, Uncertain
from muster.domain.reasons import Reason
from muster.integrations.ssh.hosts import RemoteHost
from muster.integrations.ssh.provider import SshProvider
from muster.integrations.ssh.tables import Place
from muster.ports.provider import LaunchAnswer
from muster.testing.provider_contract import asking, ids, listed, until_gone
from tests.integrations.ssh.lab import Lab, needs_sshd
from tests.integrations.ssh.test_contract import TEMPLATE

pytestmark = needs_sshd
SLOTS = 3


@pytest.fixture
def replicas(lab: Lab) -> tuple[SshProvider, SshProvider]:
    for name in ("web1", "web2"):
        lab.host(name)
    inventory = lab.inventory({name: {"slots": SLOTS} for name in lab.machines})
    return lab.provider(inventory), lab.provider(inventory)


def hosts_of(answer: LaunchAnswer) -> list[str]:
    return sorted(each.partition("@")[2] for each in ids(answer))


async def test_one_token_at_two_replicas_at_once_is_one_set_of_machines(
    replicas: tuple[SshProvider, SshProvider],
) -> None:
    request = asking("t1", 4, template=TEMPLATE)
    first, second = await asyncio.gather(*(each.launch(request) for each in replicas))
    assert ids(first) == ids(second) and len(first.machines) == 4
    assert sorted(ids(await listed(replicas[0]))) == sorted(ids(first))


async def test_replicas_that_would_place_differently_follow_the_plan_that_came_first(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have made their plans before one of them is kept."""
    really = RemoteHost.ask
    both = asyncio.Barrier(2)

    async def ask(self: RemoteHost, verb: str, **fields: object) -> object:
        if verb == "plan":
            await both.wait()
        return await really(self, verb, **fields)  # type: ignore[arg-type]

    monkeypatch.setattr(RemoteHost, "ask", ask)
    for name in ("web1", "web2"):
        lab.host(name)
    spread, packed = (lab.provider(lab.inventory(place=place)) for place in (Place.SPREAD, Place.PACKED))
    request = asking("t1", 4, template=TEMPLATE)
    first, second = await asyncio.gather(spread.launch(request), packed.launch(request))
    assert sorted(ids(first)) == sorted(ids(second)) and len(first.machines) == 4
    assert sorted(ids(await listed(spread))) == sorted(ids(first))


async def test_many_launches_at_two_replicas_never_take_more_slots_than_there_are(
    replicas: tuple[SshProvider, SshProvider], lab: Lab
) -> None:
    requests = [asking(f"t{number}", 2, template=TEMPLATE) for number in range(8)]
    answers = await asyncio.gather(
        *(replicas[number % 2].launch(request) for number, request in enumerate(requests)),
        return_exceptions=True,
    )
    for answer in answers:
        assert isinstance(answer, LaunchAnswer) or (
            isinstance(answer, Refused) and answer.reason is Reason.CAPACITY
        ), answer
    made = await listed(replicas[0])
    assert len(made) == 2 * SLOTS
    for name in lab.machines:
        assert sum(each.id.endswith(f"@{name}") for each in made) == SLOTS


async def test_one_replica_never_plans_a_slot_twice(
    replicas: tuple[SshProvider, SshProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No host starts anything before all launches have their plans."""
    really = RemoteHost.ask
    planned: list[str] = []
    all_planned = asyncio.Event()

    async def ask(self: RemoteHost, verb: str, **fields: object) -> object:
        if verb == "launch":
            await all_planned.wait()
        answer = await really(self, verb, **fields)  # type: ignore[arg-type]
        if verb == "plan":
            planned.append(verb)
            if len(planned) == 2 * SLOTS:
                all_planned.set()
        return answer

    monkeypatch.setattr(RemoteHost, "ask", ask)
    requests = [asking(f"t{number}", 1, template=TEMPLATE) for number in range(2 * SLOTS)]
    answers = await asyncio.gather(*(replicas[0].launch(request) for request in requests))
    assert [(len(answer.machines), answer.reason) for answer in answers] == [(1, None)] * len(requests)


@pytest.mark.parametrize("lost", ["plan", "launch"])
async def test_a_server_that_dies_after_a_step_leaves_what_its_successor_finishes(
    replicas: tuple[SshProvider, SshProvider], monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """The answer of the first such step never comes; what the host did stays."""
    really = RemoteHost.ask
    dead: list[str] = []

    async def ask(self: RemoteHost, verb: str, **fields: object) -> object:
        if dead:
            raise Uncertain("this server is dead")
        answer = await really(self, verb, **fields)  # type: ignore[arg-type]
        if verb == lost:
            dead.append(verb)
            raise Uncertain("this server is dead")
        return answer

    request = asking("t1", 4, template=TEMPLATE)
    with monkeypatch.context() as dying:
        dying.setattr(RemoteHost, "ask", ask)
        with pytest.raises(Uncertain):
            await replicas[0].launch(request)
    answer = await replicas[1].launch(request)
    assert len(answer.machines) == 4 and answer.reason is None
    assert sorted(ids(await listed(replicas[1]))) == sorted(ids(answer))
    with pytest.raises(TokenSpent):
        await replicas[1].launch(asking("t1", 3, template=TEMPLATE))


async def test_a_repeat_follows_the_plan_whatever_room_there_is_now(
    replicas: tuple[SshProvider, SshProvider],
) -> None:
    first, second = replicas
    full = await first.launch(asking("t1", 4, template=TEMPLATE))
    partial = await first.launch(asking("t2", 4, template=TEMPLATE))
    assert len(partial.machines) == 2 and partial.reason is Reason.CAPACITY
    await first.terminate(ids(full))
    await until_gone(first, ids(full))
    repeated = await second.launch(asking("t2", 4, template=TEMPLATE))
    assert ids(repeated) == ids(partial) and repeated.reason is Reason.CAPACITY


async def test_packed_launches_fill_one_host_before_the_next(lab: Lab) -> None:
    for name in ("web1", "web2", "web3"):
        lab.host(name)
    provider = lab.provider(lab.inventory({"web3": {"slots": 2}}, place=Place.PACKED))
    assert hosts_of(await provider.launch(asking("t1", 2, template=TEMPLATE))) == ["web3", "web3"]
    assert hosts_of(await provider.launch(asking("t2", 3, template=TEMPLATE))) == ["web1"] * 3
    assert hosts_of(await provider.launch(asking("t3", 2, template=TEMPLATE))) == ["web1"] * 2


async def test_a_drained_host_gets_no_new_nodes_from_any_replica_until_it_is_enabled(
    replicas: tuple[SshProvider, SshProvider],
) -> None:
    await replicas[0].hosts.remotes["web1"].ask("drain", on=True)
    answer = await replicas[1].launch(asking("t1", 2, template=TEMPLATE))
    assert hosts_of(answer) == ["web2", "web2"]
    assert hosts_of(await replicas[1].launch(asking("t2", 1, template=TEMPLATE))) == ["web2"]
    with pytest.raises(Refused, match="full: web2; drained: web1"):
        await replicas[1].launch(asking("t3", 1, template=TEMPLATE))
    await replicas[0].hosts.remotes["web1"].ask("drain", on=False)
    assert hosts_of(await replicas[1].launch(asking("t4", 1, template=TEMPLATE))) == ["web1"]
