"""Looks at EC2: late, throttled, batched; and ends that survive what is unknown."""

import asyncio

import pytest

from fakes.ec2 import FakeEc2
from muster.domain.errors import Throttled, Uncertain
from muster.domain.reasons import ENDINGS, Reason
from muster.integrations.ec2.api import MOST, Aws, RateLimiter
from muster.integrations.ec2.provider import Ec2Provider
from muster.ports.provider import MachineState
from muster.system import SystemIds
from muster.testing.provider_contract import ids, listed
from tests.integrations.ec2.region import Region, wanting

DESCRIBE = "DescribeInstances"
UNKNOWN = [f"i-{number:017x}" for number in range(0xF000, 0xF100)]


class JumpingClock:
    """Every sleep ends at once."""

    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        until = self.at + seconds
        await asyncio.sleep(0)
        self.at = max(self.at, until)


async def test_a_machine_that_describe_does_not_show_yet_is_neither_found_nor_listed(
    provider: Ec2Provider, fake: FakeEc2
) -> None:
    fake.faults.lag = 3600.0
    answer = await provider.launch(wanting(count=2))
    assert list(await provider.find("t1")) == await listed(provider) == []
    assert not await provider.describe(ids(answer))
    fake.faults.lag = 0.0
    assert ids(list(await provider.find("t1"))) == ids(answer)


async def test_a_failing_look_proves_nothing(provider: Ec2Provider, fake: FakeEc2) -> None:
    fake.faults.throttle(DESCRIBE)
    with pytest.raises(Throttled):
        await provider.find("t1")
    fake.faults.fail(DESCRIBE, "UnauthorizedOperation", status=403)
    with pytest.raises(Uncertain):
        await listed(provider)
    fake.faults.lose(DESCRIBE)
    with pytest.raises(Uncertain):
        await provider.describe(UNKNOWN[:1])


async def test_all_who_ask_at_once_are_answered_by_one_call(provider: Ec2Provider, fake: FakeEc2) -> None:
    answer = await provider.launch(wanting(count=3))
    known = await asyncio.gather(*(provider.describe([each]) for each in [*ids(answer), *UNKNOWN[:100]]))
    assert [list(each) for each in known[:3]] == [[each] for each in ids(answer)]
    assert not any(known[3:])
    assert fake.counted(DESCRIBE) == 1
    found = await asyncio.gather(*(provider.find(token) for token in ("t1", "t2", "t3")))
    assert [len(each) for each in found] == [3, 0, 0]
    assert fake.counted(DESCRIBE) == 2


async def test_one_asker_who_gives_up_leaves_the_answer_to_the_others(
    provider: Ec2Provider, fake: FakeEc2
) -> None:
    answer = await provider.launch(wanting())
    first = asyncio.create_task(provider.describe(ids(answer)))
    second = asyncio.create_task(provider.describe(ids(answer)))
    await asyncio.sleep(0)
    first.cancel()
    assert list(await second) == ids(answer)


async def test_more_than_one_filter_takes_are_asked_in_turns(provider: Ec2Provider, fake: FakeEc2) -> None:
    answer = await provider.launch(wanting())
    assert list(await provider.describe([*UNKNOWN, *ids(answer)])) == ids(answer)
    assert fake.counted(DESCRIBE) == 2


async def test_a_listing_goes_on_over_its_pages(
    provider: Ec2Provider, fake: FakeEc2, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.integrations.ec2.describer.PAGE", 2)
    answer = await provider.launch(wanting(count=5))
    assert ids(await listed(provider)) == ids(answer)
    assert fake.counted(DESCRIBE) == 3
    assert ids(list(await provider.find("t1"))) == ids(answer)


async def test_there_are_two_looks_a_second_however_many_operations_there_are(region: Region) -> None:
    clock = JumpingClock()
    settings = region.settings(reads_per_second=2.0)
    aws = Aws(settings, clock, SystemIds())
    provider = Ec2Provider(settings, clock, SystemIds(), aws=aws)
    started = clock.now()

    async def operation(number: int) -> None:
        for _ in range(10):
            await provider.find(f"t{number}")
            await provider.describe([UNKNOWN[number]])

    try:
        await asyncio.gather(*(operation(number) for number in range(100)))
    finally:
        await provider.close()
    asked = region.fake.counted(DESCRIBE)
    assert asked <= 2.0 * (clock.now() - started) + 1
    assert asked <= 4 * 10, "a hundred operations, and each round is two looks"


async def test_a_throttled_pacer_holds_all_callers_back_and_longer_each_time() -> None:
    clock = JumpingClock()
    pacer = RateLimiter(clock, lambda: 1.0, per_second=2.0)
    pauses = [pacer.throttled() for _ in range(7)]
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    before = clock.now()
    await pacer.turn()
    assert clock.now() == before + 30.0
    pacer.answered()
    assert (pacer.throttled(), pacer.held) == (1.0, 1.0)


async def test_a_clock_that_was_set_back_delays_no_caller_for_longer_than_a_pause() -> None:
    clock = JumpingClock()
    pacer = RateLimiter(clock, lambda: 1.0, per_second=2.0)
    await pacer.turn()
    clock.at -= 3600.0
    before = clock.now()
    await pacer.turn()
    assert clock.now() <= before + MOST


async def test_a_caller_that_gives_up_waiting_takes_no_other_callers_turn() -> None:
    clock = JumpingClock()
    pacer = RateLimiter(clock, lambda: 1.0, per_second=2.0)
    await pacer.turn()
    waiting = [asyncio.create_task(pacer.turn()) for _ in range(100)]
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    before = clock.now()
    await pacer.turn()
    assert clock.now() <= before + 0.5


async def test_while_ec2_throttles_a_launch_is_told_at_once_that_nothing_was_asked(
    region: Region, fake: FakeEc2
) -> None:
    clock = JumpingClock()
    aws = Aws(region.settings(), clock, SystemIds())
    provider = Ec2Provider(region.settings(), clock, SystemIds(), aws=aws)
    try:
        await provider.launch(wanting("t1"))
        for _ in range(10):
            aws.writes.throttled()
        with pytest.raises(Throttled, match="was not made") as caught:
            await provider.launch(wanting("t2"))
        assert caught.value.retry_after > 5.0
        assert fake.counted("CreateFleet") == 1
        for _ in range(10):
            aws.reads.throttled()
        with pytest.raises(Throttled, match="was not made"):
            await provider.describe(UNKNOWN[:1])
        clock.at += MOST
        assert not await provider.describe(UNKNOWN[:1])
    finally:
        await provider.close()


async def test_an_end_reaches_all_that_are_known_among_the_unknown(
    provider: Ec2Provider, fake: FakeEc2
) -> None:
    answer = await provider.launch(wanting(count=5))
    mixed = [each for pair in zip(UNKNOWN, ids(answer), strict=False) for each in pair]
    await provider.terminate(["nonsense", *mixed])
    assert fake.instances() == []


async def test_rights_that_hang_on_a_tag_deny_the_unknown_and_the_rest_is_ended(
    provider: Ec2Provider, fake: FakeEc2
) -> None:
    answer = await provider.launch(wanting(count=5))
    fake.faults.own_tag = ("muster:installation", "inst-1")
    await provider.terminate([UNKNOWN[0], *ids(answer), UNKNOWN[1]])
    assert fake.instances() == []


async def test_a_machine_that_may_not_be_ended_is_told_after_the_others_were_ended(
    provider: Ec2Provider, fake: FakeEc2
) -> None:
    answer = await provider.launch(wanting(count=3))
    fake.faults.own_tag = ("muster:installation", "inst-1")
    foreign = fake.cloud.instances[ids(answer)[0]]
    foreign.tags["muster:installation"] = "another"
    with pytest.raises(Uncertain, match="UnauthorizedOperation"):
        await provider.terminate(ids(answer))
    assert fake.instances() == [foreign]


async def test_who_is_not_known_to_ec2_at_all_asks_once(provider: Ec2Provider, fake: FakeEc2) -> None:
    answer = await provider.launch(wanting(count=3))
    fake.faults.fail("TerminateInstances", "AuthFailure", status=401)
    with pytest.raises(Uncertain, match="AuthFailure"):
        await provider.terminate(ids(answer))
    assert fake.counted("TerminateInstances") == 1


async def test_a_slow_end_is_stopping_until_it_is_gone(provider: Ec2Provider, fake: FakeEc2) -> None:
    fake.faults.termination = 3600.0
    answer = await provider.launch(wanting())
    await provider.terminate(ids(answer))
    (machine,) = (await provider.describe(ids(answer))).values()
    assert machine.state is MachineState.STOPPING
    assert ids(await listed(provider)) == ids(answer)


@pytest.mark.parametrize(
    "said",
    [
        "Server.SpotInstanceTermination: Spot instance termination",
        "Spot instance termination",
    ],
)
async def test_why_a_machine_ended_is_told_in_ec2_s_words(
    provider: Ec2Provider, fake: FakeEc2, said: str
) -> None:
    answer = await provider.launch(wanting())
    (instance,) = fake.instances()
    instance.why = ("Server.SpotInstanceTermination", said)
    (machine,) = (await provider.describe(ids(answer))).values()
    assert machine.why == ""  # it runs
    fake.cloud.end(instance)
    (machine,) = (await provider.describe(ids(answer))).values()
    assert machine.why == "Server.SpotInstanceTermination: Spot instance termination"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("Server.SpotInstanceTermination", Reason.INTERRUPTED),
        ("Server.SpotInstanceShutdown", Reason.INTERRUPTED),
        ("Server.ScheduledStop", Reason.INTERRUPTED),
        ("Server.InsufficientInstanceCapacity", Reason.CAPACITY),
        ("Server.InternalError", Reason.PROVIDER_ERROR),
        ("Client.VolumeLimitExceeded", Reason.QUOTA),
        ("Client.InternalError", Reason.PROVIDER_REFUSED),
        ("Client.InvalidSnapshot.NotFound", Reason.PROVIDER_REFUSED),
        ("Client.UserInitiatedShutdown", Reason.MACHINE_GONE),
        ("Client.InstanceInitiatedShutdown", Reason.MACHINE_GONE),
        ("Client.SomethingNew", Reason.MACHINE_GONE),
    ],
)
async def test_why_a_machine_ended_is_also_told_in_our_word(
    provider: Ec2Provider, fake: FakeEc2, code: str, reason: Reason
) -> None:
    answer = await provider.launch(wanting())
    (instance,) = fake.instances()
    instance.why = (code, code)
    fake.cloud.end(instance)
    (machine,) = (await provider.describe(ids(answer))).values()
    assert (machine.reason, machine.why) == (reason, code)
    assert machine.reason in ENDINGS


async def test_a_failing_end_is_told(provider: Ec2Provider, fake: FakeEc2) -> None:
    answer = await provider.launch(wanting())
    fake.faults.fail("TerminateInstances", "InternalError", status=500)
    with pytest.raises(Uncertain):
        await provider.terminate(ids(answer))
    fake.faults.throttle("TerminateInstances")
    with pytest.raises(Throttled):
        await provider.terminate(ids(answer))
    await provider.terminate(ids(answer))
    assert fake.instances() == []


async def test_a_type_that_keeps_no_latest_console_is_asked_for_its_older_one(
    provider: Ec2Provider, fake: FakeEc2
) -> None:
    answer = await provider.launch(wanting())
    fake.faults.fail("GetConsoleOutput", "UnsupportedOperation")
    assert await provider.console(ids(answer)[0], lines=5) is None
    assert fake.counted("GetConsoleOutput") == 2
