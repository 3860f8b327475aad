"""When a replica loses what it leads to another: after its silence, and not before."""

import asyncio
from dataclasses import replace

import pytest

from muster.domain.ids import OperationId
from muster.domain.operation import OperationEvent
from muster.domain.settings import PRICED_LEASE, PRICED_RENEW_EVERY
from tests.harness.agents import Behaviour
from tests.harness.harness import Harness, Replica, with_harness

BOOT = 60.0
"""So long that the operation is under way all the time."""


async def takeovers(harness: Harness, operation_id: OperationId) -> int:
    page = await harness.store.events(after=None, limit=1000, entity_id=operation_id)
    return sum(1 for event in page.items if event.name == OperationEvent.TAKEN_OVER)


async def led(harness: Harness) -> tuple[Replica, OperationId]:
    """Let one of two replicas with leases as on DynamoDB drive a provision that boots."""
    harness.settings = replace(harness.settings, lease=PRICED_LEASE, renew_every=PRICED_RENEW_EVERY)
    await harness.template()
    leader, _ = await harness.replica(), await harness.replica()
    harness.agents.script(Behaviour(boot=BOOT))
    operation = await leader.provision(1)
    await harness.pass_time(5.0)
    return leader, operation.id


@with_harness
async def test_what_a_dead_replica_led_is_taken_over_after_its_silence_however_long_its_lease(
    harness: Harness,
) -> None:
    leader, operation_id = await led(harness)
    leader.life.kill()
    settings = harness.settings
    await harness.pass_time(settings.gone_after - settings.present_every)
    assert await takeovers(harness, operation_id) == 0
    await harness.pass_time(3 * settings.present_every)
    assert await takeovers(harness, operation_id) == 1
    await harness.succeeded(await harness.operation(operation_id))


@pytest.mark.parametrize("times", [1, 3])
@with_harness
async def test_a_loop_that_stands_still_for_seconds_loses_nothing(harness: Harness, times: int) -> None:
    leader, operation_id = await led(harness)
    for _ in range(times):
        still = harness.settings.gone_after - 2 * harness.settings.present_every
        leader.life.pause(asyncio.get_running_loop().time() + still)
        await harness.pass_time(still + harness.settings.present_every)
    assert await takeovers(harness, operation_id) == 0
    assert (await harness.operation(operation_id)).lease_owner == leader.name
    await harness.succeeded(await harness.operation(operation_id))


@with_harness
async def test_a_replica_that_stood_still_for_too_long_writes_nothing_more_of_what_it_led(
    harness: Harness,
) -> None:
    leader, operation_id = await led(harness)
    before = await harness.operation(operation_id)
    leader.life.pause(asyncio.get_running_loop().time() + harness.settings.gone_after + 10.0)
    await harness.pass_time(harness.settings.gone_after + 12.0)
    after = await harness.operation(operation_id)
    assert after.lease_owner != leader.name
    assert after.epoch == before.epoch + 1
    await harness.succeeded(after)
    assert await takeovers(harness, operation_id) == 1
