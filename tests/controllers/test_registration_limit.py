"""The limit on registrations holds for all replicas together, in any minute, and gives each its chance."""

from random import Random

import pytest

from muster.domain.errors import Throttled
from muster.integrations.github.registration_limit import MINUTE, RegistrationLimit
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
