"""The limit on registrations holds for all replicas together, in any minute, and gives each its chance."""

from random import Random

import pytest

from muster.domain.errors import Throttled
from muster.integrations.github.registration_limit import ASKED_EVERY, MINUTE, SHARES, RegistrationLimit
from tests.stage import Stage, staged


def limits(stage: Stage, count: int, per_minute: int) -> list[RegistrationLimit]:
    found = [RegistrationLimit(stage.clock, per_minute) for _ in range(count)]
    for number, each in enumerate(found):
        each.divide(stage.store, f"replica-{number}")
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
    @staged
    async def scenario(stage: Stage) -> None:
        chance = Random(seed)
        replicas = limits(stage, 3, per_minute)
        times: list[float] = []
        by = [0, 0, 0]
        while stage.loop_time < 600.0:
            number = chance.randrange(3)
            for _ in range(chance.choice((1, 1, 40))):
                if await made(replicas[number]):
                    times.append(stage.now)
                    by[number] += 1
            if chance.random() < 0.01:  # one is started anew, and remembers nothing
                await stage.store.expire_leases(None if chance.random() < 0.5 else f"replica-{number}")
                replicas[number] = limits(stage, 3, per_minute)[number]
                replicas[number].divide(stage.store, f"replica-{number}-{stage.now}")
            await stage.pass_time(chance.uniform(0.0, 2.0))
        for at in times:
            assert sum(at <= each < at + MINUTE for each in times) <= per_minute
        assert len(times) >= 0.6 * per_minute * 10, "most of the limit is used"
        assert per_minute < 7 or min(by) > 0.1 * len(times), "each replica has its chance"

    scenario()


@staged
async def test_one_replica_may_use_the_whole_limit_at_once(stage: Stage) -> None:
    (limit, idle) = limits(stage, 2, 180)
    assert [await made(limit) for _ in range(180)] == [True] * 180
    assert not await made(limit) and not await made(idle)
    await stage.pass_time(MINUTE + 5.0)
    assert await made(idle)


@pytest.mark.parametrize(("replicas", "per_minute"), [(3, 30), (3, 120), (6, 90)])
def test_a_trickle_below_the_limit_is_never_refused(replicas: int, per_minute: int) -> None:
    @staged
    async def scenario(stage: Stage) -> None:
        shared = limits(stage, replicas, 180)
        for number in range(10 * per_minute):
            assert await made(shared[number % replicas]), f"{number} at {stage.loop_time} s"
            await stage.pass_time(60.0 / per_minute)

    scenario()


@staged
async def test_a_restart_frees_no_share(stage: Stage) -> None:
    (limit,) = limits(stage, 1, 180)
    assert all([await made(limit) for _ in range(100)])
    await stage.store.expire_leases()
    after = RegistrationLimit(stage.clock, 180)
    after.divide(stage.store, "replica-anew")
    at_once = 0
    while await made(after):
        at_once += 1
    assert 180 - 100 - 180 // SHARES <= at_once <= 180 - 100


@staged
async def test_thousands_that_wait_ask_the_store_for_each_share_once_in_five_seconds(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    (limit, idle) = limits(stage, 2, 180)
    assert all([await made(limit) for _ in range(180)])
    asked: list[str] = []
    lease = stage.store.lease_duty

    async def counted(name: str, owner: str, *, now: float, until: float, problem: str = "") -> bool:
        asked.append(name)
        return await lease(name, owner, now=now, until=until, problem=problem)

    monkeypatch.setattr(stage.store, "lease_duty", counted)
    pauses: set[float] = set()
    for _ in range(1000):
        with pytest.raises(Throttled) as refused:
            await idle.take()
        pauses.add(refused.value.retry_after)
    assert len(asked) == SHARES
    assert pauses == {ASKED_EVERY}
    await stage.pass_time(2.0)
    with pytest.raises(Throttled) as refused:
        await idle.take()
    assert refused.value.retry_after == pytest.approx(ASKED_EVERY - 2.0)
    assert len(asked) == SHARES
