from contextlib import suppress
from dataclasses import replace

import pytest

from muster.controllers.orphans import Orphans
from muster.domain.errors import Implausible, Uncertain
from muster.domain.lifecycle import NodeState
from muster.domain.reasons import Reason
from tests.harness import Behaviour, Harness, loses_the_reply, loses_the_request, with_harness
from tests.harness.cloud import aloof

NEVER_JOINS = Behaviour(join=False)


async def stray(harness: Harness, count: int = 1, token: str = "inst/op-lost.1") -> list[str]:
    """Machines of ours that no record and no launch answers for."""
    installation = await harness.store.installation()
    harness.agents.script(*[NEVER_JOINS] * count)
    return [harness.cloud.make(token, installation.id).id for _ in range(count)]


async def recorded(harness: Harness) -> list[str]:
    return [node.machine_id for node in await harness.nodes()]


@with_harness
async def test_an_orphan_is_recorded_and_condemned_once_it_was_seen_twice_and_is_old(
    harness: Harness,
) -> None:
    (machine,) = await stray(harness)
    orphans = Orphans(harness.ports, harness.settings)
    window = harness.cloud.visibility_window

    await orphans.reconcile()
    await harness.pass_time(window - 1.0)
    await orphans.reconcile()
    assert await recorded(harness) == []
    await harness.pass_time(1.0)
    await orphans.reconcile()

    (node,) = await harness.nodes()
    assert (node.machine_id, node.state, node.reason) == (machine, NodeState.TERMINATING, Reason.ORPHAN)
    assert (await harness.store.usage("unknown")).total == 1
    await orphans.reconcile()
    assert len(await harness.nodes()) == 1


@with_harness
async def test_one_look_is_not_enough_however_old_the_machine(harness: Harness) -> None:
    await stray(harness)
    await harness.pass_time(5000.0)

    await Orphans(harness.ports, harness.settings).reconcile()

    assert await recorded(harness) == []


@with_harness
async def test_a_late_machine_of_a_launch_closed_long_ago_is_looked_at_twice(harness: Harness) -> None:
    await harness.template()
    replica = await harness.replica()
    operation = await harness.succeeded(await replica.provision(1))
    replica.life.kill()
    (launch,) = await harness.launches(operation.id)
    await harness.pass_time(5000.0)
    (machine,) = await stray(harness, token=launch.token)
    orphans = Orphans(harness.ports, harness.settings)

    await orphans.reconcile()
    assert machine not in await recorded(harness)
    await orphans.reconcile()
    assert machine in await recorded(harness)


@with_harness
async def test_a_machine_that_was_missing_in_between_is_seen_for_the_first_time_again(
    harness: Harness,
) -> None:
    (machine,) = await stray(harness)
    orphans = Orphans(harness.ports, harness.settings)
    box = harness.cloud.boxes[machine]

    await orphans.reconcile()
    await harness.pass_time(1000.0)
    box.visible_at = harness.now + 10.0
    await orphans.reconcile()
    await harness.pass_time(10.0)
    await orphans.reconcile()

    assert await recorded(harness) == []


@with_harness
async def test_machines_of_an_open_launch_are_no_orphans(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(NEVER_JOINS, NEVER_JOINS)
    harness.cloud.script(loses_the_reply(), *[loses_the_request()] * 100)
    replica = await harness.replica()
    await replica.provision(2)
    await harness.pass_time(30.0)
    replica.life.kill()
    orphans = Orphans(harness.ports, harness.settings)

    for _ in range(4):
        await orphans.reconcile()
        await harness.pass_time(1000.0)

    assert await recorded(harness) == []
    assert len(harness.cloud.live()) == 2


@with_harness
async def test_a_machine_of_a_closed_launch_waits_for_the_window_of_its_last_call(harness: Harness) -> None:
    await harness.template()
    replica = await harness.replica()
    operation = await harness.succeeded(await replica.provision(1))
    replica.life.kill()
    (launch,) = await harness.launches(operation.id)
    assert launch.called_at is not None
    (machine,) = await stray(harness, token=launch.token)
    orphans = Orphans(harness.ports, harness.settings)
    surprise = launch.called_at + harness.cloud.call_timeout + harness.cloud.visibility_window

    await orphans.reconcile()
    await harness.pass_time(surprise - harness.now - 1.0)
    await orphans.reconcile()
    assert machine not in await recorded(harness)
    await harness.pass_time(1.0)
    await orphans.reconcile()

    (node,) = await harness.nodes(NodeState.TERMINATING)
    assert (node.machine_id, node.launch_id, node.template) == (machine, launch.id, "ci")


@with_harness
async def test_a_live_machine_whose_record_is_terminated_is_an_orphan(harness: Harness) -> None:
    await harness.template()
    (node,) = await harness.warm(1)
    replica = await harness.replica()
    harness.cloud.end(node.machine_id)
    harness.agents.of(node.id).die()
    await harness.count(1, NodeState.TERMINATED)
    replica.life.kill()
    harness.cloud.boxes[node.machine_id].gone_at = None
    orphans = Orphans(harness.ports, harness.settings)

    for _ in range(2):
        await orphans.reconcile()
        await harness.pass_time(400.0)
    await orphans.reconcile()

    (again,) = await harness.nodes(NodeState.TERMINATING)
    assert again.machine_id == node.machine_id


@with_harness
async def test_another_installations_machines_are_never_touched(harness: Harness) -> None:
    harness.agents.script(*[NEVER_JOINS] * 2)
    for _ in range(2):
        harness.cloud.make("other/op-1.1", "inst-other")
    orphans = Orphans(harness.ports, harness.settings)

    for _ in range(4):
        await orphans.reconcile()
        await harness.pass_time(1000.0)

    assert await recorded(harness) == []


@with_harness
async def test_more_orphans_than_are_plausible_are_left_alone_and_said_aloud(harness: Harness) -> None:
    allowed = harness.settings.orphans_floor
    await stray(harness, allowed + 1)
    orphans = Orphans(harness.ports, harness.settings)
    await orphans.reconcile()
    for _ in range(2):
        await harness.pass_time(400.0)
        with pytest.raises(Implausible, match=f"{allowed + 1} machines at cloud have no record"):
            await orphans.reconcile()

    assert await recorded(harness) == []
    braked = await harness.events(name="orphans_brake")
    assert braked
    assert f"{allowed + 1} machines" in braked[0].detail
    assert harness.complaints.pop().getMessage() == "orphans brake"
    harness.complaints.clear()

    harness.cloud.end("i-0001")
    await orphans.reconcile()
    assert len(await recorded(harness)) == allowed


@with_harness
async def test_machines_of_launches_that_we_closed_are_given_back_however_many(harness: Harness) -> None:
    await harness.template()
    replica = await harness.replica()
    operation = await harness.succeeded(await replica.provision(1))
    replica.life.kill()
    (launch,) = await harness.launches(operation.id)
    await harness.pass_time(5000.0)
    many = harness.settings.orphans_floor + 1
    late = await stray(harness, many, token=launch.token)
    unknown = await stray(harness, many)
    orphans = Orphans(harness.ports, harness.settings)

    for _ in range(5):
        with suppress(Implausible):
            await orphans.reconcile()
        await harness.pass_time(400.0)

    assert [each for each in late if each not in await recorded(harness)] == []
    assert [each for each in unknown if each in await recorded(harness)] == []
    (said,) = await harness.events(name="orphans_brake")
    assert f"{many} machines" in said.detail
    assert [each.getMessage() for each in harness.complaints] == ["orphans brake"]
    harness.complaints.clear()


@with_harness
async def test_a_large_fleet_may_have_more_orphans(harness: Harness) -> None:
    await harness.template(max_nodes=100)
    harness.agents.script(*[Behaviour(beats=False)] * 40)
    await harness.warm(40)
    share = int(40 * harness.settings.orphans_share)
    assert share > harness.settings.orphans_floor
    await stray(harness, share)
    orphans = Orphans(harness.ports, harness.settings)
    await orphans.reconcile()
    await harness.pass_time(harness.cloud.visibility_window)
    await orphans.reconcile()

    assert len(await harness.nodes(NodeState.TERMINATING)) == share


@with_harness
async def test_a_listing_that_breaks_off_proves_nothing(harness: Harness) -> None:
    await stray(harness)
    replica = await harness.replica()
    await harness.pass_time(100.0)
    harness.cloud.trouble = Uncertain("the region is down")
    await harness.pass_time(3000.0)
    assert await recorded(harness) == []

    harness.cloud.trouble = None
    await harness.count(1, NodeState.TERMINATED)
    assert harness.cloud.live() == []
    assert not replica.broken


@with_harness
async def test_a_provider_that_can_not_tell_does_not_stop_the_look_at_the_others(harness: Harness) -> None:
    await stray(harness)
    ports = replace(harness.ports, providers={"aloof": aloof(harness.clock), **harness.ports.providers})
    orphans = Orphans(ports, harness.settings)
    await orphans.reconcile()
    await harness.pass_time(harness.cloud.visibility_window)
    await orphans.reconcile()
    assert [node.reason for node in await harness.nodes(NodeState.TERMINATING)] == [Reason.ORPHAN]
