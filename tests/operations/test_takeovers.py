"""When a replica loses what it leads to another: after its silence, and not before."""

import asyncio
from dataclasses import replace

import pytest

from muster.domain.ids import OperationId
from muster.domain.operation import Step
from muster.domain.settings import PRICED_LEASE, PRICED_RENEW_EVERY
from tests.stage.agents import Manner
from tests.stage.stage import Replica, Stage, staged

BOOT = 60.0
"""So long that the operation is under way all the time."""


async def takeovers(stage: Stage, operation_id: OperationId) -> int:
    page = await stage.store.events(after=None, limit=1000, entity_id=operation_id)
    return sum(1 for event in page.items if event.name == Step.TAKEN_OVER)


async def led(stage: Stage) -> tuple[Replica, OperationId]:
    """Let one of two replicas with leases as on DynamoDB drive a provision that boots."""
    stage.settings = replace(stage.settings, lease=PRICED_LEASE, renew_every=PRICED_RENEW_EVERY)
    await stage.template()
    leader, _ = await stage.replica(), await stage.replica()
    stage.agents.script(Manner(boot=BOOT))
    operation = await leader.provision(1)
    await stage.pass_time(5.0)
    return leader, operation.id


@staged
async def test_what_a_dead_replica_led_is_taken_over_after_its_silence_however_long_its_lease(
    stage: Stage,
) -> None:
    leader, operation_id = await led(stage)
    leader.life.kill()
    settings = stage.settings
    await stage.pass_time(settings.gone_after - settings.present_every)
    assert await takeovers(stage, operation_id) == 0
    await stage.pass_time(3 * settings.present_every)
    assert await takeovers(stage, operation_id) == 1
    await stage.succeeded(await stage.operation(operation_id))


@pytest.mark.parametrize("times", [1, 3])
@staged
async def test_a_loop_that_stands_still_for_seconds_loses_nothing(stage: Stage, times: int) -> None:
    leader, operation_id = await led(stage)
    for _ in range(times):
        still = stage.settings.gone_after - 2 * stage.settings.present_every
        leader.life.pause(asyncio.get_running_loop().time() + still)
        await stage.pass_time(still + stage.settings.present_every)
    assert await takeovers(stage, operation_id) == 0
    assert (await stage.operation(operation_id)).lease_owner == leader.name
    await stage.succeeded(await stage.operation(operation_id))


@staged
async def test_a_replica_that_stood_still_for_too_long_writes_nothing_more_of_what_it_led(
    stage: Stage,
) -> None:
    leader, operation_id = await led(stage)
    before = await stage.operation(operation_id)
    leader.life.pause(asyncio.get_running_loop().time() + stage.settings.gone_after + 10.0)
    await stage.pass_time(stage.settings.gone_after + 12.0)
    after = await stage.operation(operation_id)
    assert after.lease_owner != leader.name
    assert after.epoch == before.epoch + 1
    await stage.succeeded(after)
    assert await takeovers(stage, operation_id) == 1
