"""The limit on registrations holds for all replicas together, in any minute, and gives each its chance."""

from random import Random

import pytest

from muster.domain.errors import Throttled
from muster.integrations.github.registration_limit import ASKED_EVERY, MINUTE, SHARES, RegistrationLimit
from tests.harness import Harness, with_harness


def limits(harness: Harness, count: int, per_minute: int) -> list[RegistrationLimit]:
    found = [RegistrationLimit(harness.clock, per_minute) for _ in range(count)]
    for number, each in enumerate(found):
        each.divide(harness.store, f"replica-{number}")
    return found


async def made(limit: RegistrationLimit) -> bool:
    try:
        await limit.take()
    except Throttled as error:
        return error.retry_after <= 0.0
    return True


@pytest.mark.parametrize("per_minute", [1, 7, 12, 180])
@pytest.mark.parametrize("seed", range(3))
def test_no_minute_has_more_registrations_than_the_limit_whichever_replica_makes_them(
    per_minute: int, seed: int
) -> None:
    @with_harness
    async def scenario(harness: Harness) -> None:
        chance = Random(seed)
        replicas = limits(harness, 3, per_minute)
        times: list[float] = []
        by = [0, 0, 0]
        while harness.loop_time < 600.0:
            number = chance.randrange(3)
            for _ in range(chance.choice((1, 1, 40))):
                if await made(replicas[number]):
                    times.append(harness.now)
                    by[number] += 1
            if chance.random() < 0.01:  # one is started anew, and remembers nothing
                await harness.store.expire_leases(None if chance.random() < 0.5 else f"replica-{number}")
                replicas[number] = limits(harness, 3, per_minute)[number]
                replicas[number].divide(harness.store, f"replica-{number}-{harness.now}")
            await harness.pass_time(chance.uniform(0.0, 2.0))
        for at in times:
            assert sum(at <= each < at + MINUTE for each in times) <= per_minute
        assert len(times) >= 0.6 * per_minute * 10, "most of the limit is used"
        assert per_minute < 7 or min(by) > 0.1 * len(times), "each replica has its chance"

    scenario()


@with_harness
async def test_one_replica_may_use_the_whole_limit_at_once(harness: Harness) -> None:
    (limit, idle) = limits(harness, 2, 180)
    assert [await made(limit) for _ in range(180)] == [True] * 180
    assert not await made(limit) and not await made(idle)
    await harness.pass_time(MINUTE + 5.0)
    assert await made(idle)


@pytest.mark.parametrize(("replicas", "per_minute"), [(3, 30), (3, 120), (6, 90)])
def test_a_trickle_below_the_limit_is_never_refused(replicas: int, per_minute: int) -> None:
    @with_harness
    async def scenario(harness: Harness) -> None:
        shared = limits(harness, replicas, 180)
        for number in range(10 * per_minute):
            assert await made(shared[number % replicas]), f"{number} at {harness.loop_time} s"
            await harness.pass_time(60.0 / per_minute)

    scenario()


@with_harness
async def test_a_restart_frees_no_share(harness: Harness) -> None:
    (limit,) = limits(harness, 1, 180)
    assert all([await made(limit) for _ in range(100)])
    await harness.store.expire_leases()
    after = RegistrationLimit(harness.clock, 180)
    after.divide(harness.store, "replica-anew")
    at_once = 0
    while await made(after):
        at_once += 1
    assert 180 - 100 - 180 // SHARES <= at_once <= 180 - 100


@with_harness
async def test_thousands_that_wait_ask_the_store_for_each_share_once_in_five_seconds(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    (limit, idle) = limits(harness, 2, 180)
    assert all([await made(limit) for _ in range(180)])
    asked: list[str] = []
    lease = harness.store.lease_duty

    async def counted(name: str, owner: str, *, now: float, until: float, problem: str = "") -> bool:
        asked.append(name)
        return await lease(name, owner, now=now, until=until, problem=problem)

    monkeypatch.setattr(harness.store, "lease_duty", counted)
    pauses: set[float] = set()
    for _ in range(1000):
        with pytest.raises(Throttled) as refused:
            await idle.take()
        pauses.add(refused.value.retry_after)
    assert len(asked) == SHARES
    assert pauses == {ASKED_EVERY}
    await harness.pass_time(2.0)
    with pytest.raises(Throttled) as refused:
        await idle.take()
    assert refused.value.retry_after == pytest.approx(ASKED_EVERY - 2.0)
    assert len(asked) == SHARES
