"""The contract of `muster.ports.provider`, as sentences. Each adapter runs it on a subject of its own."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any

import pytest

from muster.domain.errors import Refused, TokenSpent
from muster.domain.ids import LaunchId
from muster.domain.matching import type_matches
from muster.domain.reasons import Reason
from muster.domain.template import RESOURCE_CLASSES, TemplateSpec, UsageClass
from muster.ports.provider import LaunchAnswer, LaunchRequest, Machine, MachineState, NodeProvider

INSTALLATION = "inst-1"
OTHER_INSTALLATION = "inst-2"
CAPACITY = 5
PATIENCE = 30.0


TEMPLATE = TemplateSpec(name="work", provider="process")


def asking(
    token: str,
    count: int = 1,
    *,
    installation_id: str = INSTALLATION,
    size: str = "small",
    patterns: tuple[str, ...] = ("*",),
    usage: UsageClass = UsageClass.ON_DEMAND,
    template: TemplateSpec = TEMPLATE,
) -> LaunchRequest:
    return LaunchRequest(
        token=token,
        launch_id=LaunchId(token),
        installation_id=installation_id,
        template=template,
        revision=1,
        resource_class=RESOURCE_CLASSES[size],
        usage_class=usage,
        instance_types=patterns,
        count=count,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Two installations' ways to one place with room for CAPACITY machines."""

    provider: NodeProvider
    neighbour: NodeProvider
    write: Callable[[str, str], object]
    """Let a machine write to its console: its id, and the text. What it returns is awaited, if it can be."""
    template: TemplateSpec = TEMPLATE
    size: str = "small"
    """A class that there are machines for, whose types end with its name."""

    async def written(self, machine_id: str, text: str) -> None:
        done = self.write(machine_id, text)
        if isawaitable(done):
            await done

    def asking(self, token: str, count: int = 1, **more: Any) -> LaunchRequest:
        return asking(token, count, template=self.template, size=self.size, **more)


async def listed(provider: NodeProvider) -> list[Machine]:
    return [machine async for machine in provider.list()]


def ids(machines: LaunchAnswer | list[Machine]) -> list[str]:
    found = machines.machines if isinstance(machines, LaunchAnswer) else machines
    return [machine.id for machine in found]


async def until_gone(provider: NodeProvider, machine_ids: list[str]) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            known = await provider.describe(machine_ids)
            if all(machine.state is MachineState.GONE for machine in known.values()):
                return


class ProviderContract:
    """Subclasses have a fixture `subject`."""

    async def test_a_launch_makes_as_many_machines_as_asked_for_and_tags_them(self, subject: Subject) -> None:
        answer = await subject.provider.launch(subject.asking("t1", 3, usage=UsageClass.SPOT))
        assert len(answer.machines) == 3 and answer.reason is None
        assert len(set(ids(answer))) == 3
        for machine in answer.machines:
            assert (machine.installation_id, machine.token) == (INSTALLATION, "t1")
            assert machine.usage_class is UsageClass.SPOT
            assert machine.state in (MachineState.PENDING, MachineState.RUNNING)
            assert type_matches(machine.instance_type, (f"*.{subject.size}",))

    async def test_the_same_request_again_makes_nothing_new_and_gives_the_same_answer(
        self, subject: Subject
    ) -> None:
        first = await subject.provider.launch(subject.asking("t1", 2))
        second = await subject.provider.launch(subject.asking("t1", 2))
        assert ids(first) == ids(second)
        assert sorted(ids(await listed(subject.provider))) == sorted(ids(first))

    async def test_the_same_request_twice_at_once_makes_one_set_of_machines(self, subject: Subject) -> None:
        first, second = await asyncio.gather(
            subject.provider.launch(subject.asking("t1", 2)), subject.provider.launch(subject.asking("t1", 2))
        )
        assert ids(first) == ids(second)
        assert len(await listed(subject.provider)) == 2

    async def test_a_token_used_with_other_parameters_is_spent(self, subject: Subject) -> None:
        first = await subject.provider.launch(subject.asking("t1", 1))
        with pytest.raises(TokenSpent):
            await subject.provider.launch(subject.asking("t1", 2))
        assert ids(await listed(subject.provider)) == ids(first)

    async def test_a_token_looks_like_those_of_a_server(self, subject: Subject) -> None:
        token = f"{INSTALLATION}/op-1m7phmv03s3zar02t9.1"
        answer = await subject.provider.launch(subject.asking(token, 1))
        assert [machine.token for machine in answer.machines] == [token]
        assert ids(list(await subject.provider.find(token))) == ids(answer)

    async def test_find_shows_the_machines_of_one_launch(self, subject: Subject) -> None:
        first = await subject.provider.launch(subject.asking("t1", 2))
        await subject.provider.launch(subject.asking("t2", 1))
        assert sorted(ids(list(await subject.provider.find("t1")))) == sorted(ids(first))
        assert list(await subject.provider.find("never")) == []

    async def test_list_shows_every_machine_once_in_a_stable_order(self, subject: Subject) -> None:
        first = await subject.provider.launch(subject.asking("t1", 2))
        second = await subject.provider.launch(subject.asking("t2", 2))
        shown = ids(await listed(subject.provider))
        assert sorted(shown) == sorted(ids(first) + ids(second))
        assert ids(await listed(subject.provider)) == shown

    async def test_list_shows_nothing_of_another_installation(self, subject: Subject) -> None:
        own = await subject.provider.launch(subject.asking("t1", 1))
        other = await subject.neighbour.launch(subject.asking("t2", 1, installation_id=OTHER_INSTALLATION))
        assert ids(await listed(subject.provider)) == ids(own)
        assert ids(await listed(subject.neighbour)) == ids(other)

    async def test_describe_says_what_is_known_and_leaves_out_the_unknown(self, subject: Subject) -> None:
        answer = await subject.provider.launch(subject.asking("t1", 1))
        known = await subject.provider.describe([*ids(answer), "no-such-machine", "../../etc", ""])
        assert list(known) == ids(answer)
        assert known[answer.machines[0].id].token == "t1"
        assert not await subject.provider.describe([])

    async def test_a_terminated_machine_is_gone_in_the_end_and_stays_gone(self, subject: Subject) -> None:
        answer = await subject.provider.launch(subject.asking("t1", 2))
        doomed, spared = ids(answer)
        await subject.provider.terminate([doomed])
        await until_gone(subject.provider, [doomed])
        assert ids(await listed(subject.provider)) == [spared]
        assert ids(list(await subject.provider.find("t1"))) == [spared]
        repeated = await subject.provider.launch(subject.asking("t1", 2))
        assert [machine.id for machine in repeated.machines if machine.state is not MachineState.GONE] == [
            spared
        ]
        assert ids(await listed(subject.provider)) == [spared]

    async def test_terminating_again_or_what_is_unknown_or_gone_is_no_error(self, subject: Subject) -> None:
        answer = await subject.provider.launch(subject.asking("t1", 1))
        await subject.provider.terminate([*ids(answer), "no-such-machine", "../../etc", ""])
        await subject.provider.terminate(ids(answer))
        await until_gone(subject.provider, ids(answer))
        await subject.provider.terminate(ids(answer))
        await subject.provider.terminate([])

    async def test_the_console_is_the_end_of_what_a_machine_wrote(self, subject: Subject) -> None:
        answer = await subject.provider.launch(subject.asking("t1", 2))
        first, second = ids(answer)
        await subject.written(first, "".join(f"line {number}\n" for number in range(1000)))
        await subject.written(second, "mine\n")
        shown = await subject.provider.console(first, lines=3)
        assert shown is not None and len(shown.split("\n")) == 3
        assert "line 999" in (await subject.provider.console(first, lines=5) or "")
        assert "mine" not in (await subject.provider.console(first, lines=5000) or "")
        assert "mine" in (await subject.provider.console(second, lines=5000) or "")

    async def test_the_console_outlives_its_machine(self, subject: Subject) -> None:
        answer = await subject.provider.launch(subject.asking("t1", 1))
        await subject.written(ids(answer)[0], "last words\n")
        await subject.provider.terminate(ids(answer))
        await until_gone(subject.provider, ids(answer))
        assert "last words" in (await subject.provider.console(ids(answer)[0], lines=200) or "")

    async def test_of_what_is_unknown_and_of_no_lines_there_is_no_console(self, subject: Subject) -> None:
        answer = await subject.provider.launch(subject.asking("t1", 1))
        await subject.written(ids(answer)[0], "words\n")
        assert await subject.provider.console(ids(answer)[0], lines=0) is None
        for unknown in ("no-such-machine", "../../etc", ""):
            assert await subject.provider.console(unknown, lines=10) is None

    async def test_patterns_that_no_type_matches_are_refused(self, subject: Subject) -> None:
        with pytest.raises(Refused) as caught:
            await subject.provider.launch(subject.asking("t1", 1, patterns=("zz9*",)))
        assert caught.value.reason is Reason.PROVIDER_REFUSED
        assert await listed(subject.provider) == []

    async def test_beyond_the_capacity_a_launch_gets_what_fits_and_hears_why(self, subject: Subject) -> None:
        await subject.provider.launch(subject.asking("t1", CAPACITY - 1))
        answer = await subject.provider.launch(subject.asking("t2", 3))
        assert len(answer.machines) == 1
        assert answer.reason is Reason.CAPACITY and answer.message
        assert len(await listed(subject.provider)) == CAPACITY

    async def test_a_partial_answer_stays_the_same_when_there_is_room_again(self, subject: Subject) -> None:
        full = await subject.provider.launch(subject.asking("t1", CAPACITY - 1))
        first = await subject.provider.launch(subject.asking("t2", 2))
        await subject.provider.terminate(ids(full))
        await until_gone(subject.provider, ids(full))
        second = await subject.provider.launch(subject.asking("t2", 2))
        assert ids(first) == ids(second) and second.reason is Reason.CAPACITY

    async def test_without_any_room_a_launch_gets_nothing(self, subject: Subject) -> None:
        await subject.provider.launch(subject.asking("t1", CAPACITY))
        try:
            answer = await subject.provider.launch(subject.asking("t2", 1))
        except Refused as refused:
            answer = LaunchAnswer(machines=(), reason=refused.reason)
        assert answer.machines == () and answer.reason is Reason.CAPACITY

    async def test_a_machine_that_is_gone_makes_room(self, subject: Subject) -> None:
        first = await subject.provider.launch(subject.asking("t1", CAPACITY))
        await subject.provider.terminate(ids(first))
        await until_gone(subject.provider, ids(first))
        assert len((await subject.provider.launch(subject.asking("t2", CAPACITY))).machines) == CAPACITY
