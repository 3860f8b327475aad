from contextlib import suppress
from dataclasses import replace

import pytest

from muster.controllers.orphans import Orphans
from muster.domain.errors import Implausible, Uncertain
from muster.domain.lifecycle import NodeState
from muster.domain.reasons import Reason
from tests.stage import Manner, Stage, loses_the_reply, loses_the_request, staged
from tests.stage.cloud import aloof

NOBODY = Manner(join=False)


async def stray(stage: Stage, count: int = 1, token: str = "inst/op-lost.1") -> list[str]:
    """Machines of ours that no record and no launch answers for."""
    installation = await stage.store.installation()
    stage.agents.script(*[NOBODY] * count)
    return [stage.cloud.make(token, installation.id).id for _ in range(count)]


async def recorded(stage: Stage) -> list[str]:
    return [node.machine_id for node in await stage.nodes()]


@staged
async def test_an_orphan_is_recorded_and_condemned_once_it_was_seen_twice_and_is_old(stage: Stage) -> None:
    (machine,) = await stray(stage)
    orphans = Orphans(stage.ports, stage.settings)
    window = stage.cloud.visibility_window

    await orphans.reconcile()
    await stage.pass_time(window - 1.0)
    await orphans.reconcile()
    assert await recorded(stage) == []
    await stage.pass_time(1.0)
    await orphans.reconcile()

    (node,) = await stage.nodes()
    assert (node.machine_id, node.state, node.reason) == (machine, NodeState.TERMINATING, Reason.ORPHAN)
    assert (await stage.store.usage("unknown")).total == 1
    await orphans.reconcile()
    assert len(await stage.nodes()) == 1


@staged
async def test_one_look_is_not_enough_however_old_the_machine(stage: Stage) -> None:
    await stray(stage)
    await stage.pass_time(5000.0)

    await Orphans(stage.ports, stage.settings).reconcile()

    assert await recorded(stage) == []


@staged
async def test_a_late_machine_of_a_launch_closed_long_ago_is_looked_at_twice(stage: Stage) -> None:
    await stage.template()
    replica = await stage.replica()
    operation = await stage.succeeded(await replica.provision(1))
    replica.life.kill()
    (launch,) = await stage.launches(operation.id)
    await stage.pass_time(5000.0)
    (machine,) = await stray(stage, token=launch.token)
    orphans = Orphans(stage.ports, stage.settings)

    await orphans.reconcile()
    assert machine not in await recorded(stage)
    await orphans.reconcile()
    assert machine in await recorded(stage)


@staged
async def test_a_machine_that_was_missing_in_between_is_seen_for_the_first_time_again(stage: Stage) -> None:
    (machine,) = await stray(stage)
    orphans = Orphans(stage.ports, stage.settings)
    box = stage.cloud.boxes[machine]

    await orphans.reconcile()
    await stage.pass_time(1000.0)
    box.visible_at = stage.now + 10.0
    await orphans.reconcile()
    await stage.pass_time(10.0)
    await orphans.reconcile()

    assert await recorded(stage) == []


@staged
async def test_machines_of_an_open_launch_are_no_orphans(stage: Stage) -> None:
    await stage.template()
    stage.agents.script(NOBODY, NOBODY)
    stage.cloud.script(loses_the_reply(), *[loses_the_request()] * 100)
    replica = await stage.replica()
    await replica.provision(2)
    await stage.pass_time(30.0)
    replica.life.kill()
    orphans = Orphans(stage.ports, stage.settings)

    for _ in range(4):
        await orphans.reconcile()
        await stage.pass_time(1000.0)

    assert await recorded(stage) == []
    assert len(stage.cloud.live()) == 2


@staged
async def test_a_machine_of_a_closed_launch_waits_for_the_window_of_its_last_call(stage: Stage) -> None:
    await stage.template()
    replica = await stage.replica()
    operation = await stage.succeeded(await replica.provision(1))
    replica.life.kill()
    (launch,) = await stage.launches(operation.id)
    assert launch.called_at is not None
    (machine,) = await stray(stage, token=launch.token)
    orphans = Orphans(stage.ports, stage.settings)
    surprise = launch.called_at + stage.cloud.call_timeout + stage.cloud.visibility_window

    await orphans.reconcile()
    await stage.pass_time(surprise - stage.now - 1.0)
    await orphans.reconcile()
    assert machine not in await recorded(stage)
    await stage.pass_time(1.0)
    await orphans.reconcile()

    (node,) = await stage.nodes(NodeState.TERMINATING)
    assert (node.machine_id, node.launch_id, node.template) == (machine, launch.id, "ci")


@staged
async def test_a_live_machine_whose_record_is_terminated_is_an_orphan(stage: Stage) -> None:
    await stage.template()
    (node,) = await stage.warm(1)
    replica = await stage.replica()
    stage.cloud.end(node.machine_id)
    stage.agents.of(node.id).die()
    await stage.count(1, NodeState.TERMINATED)
    replica.life.kill()
    stage.cloud.boxes[node.machine_id].gone_at = None
    orphans = Orphans(stage.ports, stage.settings)

    for _ in range(2):
        await orphans.reconcile()
        await stage.pass_time(400.0)
    await orphans.reconcile()

    (again,) = await stage.nodes(NodeState.TERMINATING)
    assert again.machine_id == node.machine_id


@staged
async def test_another_installations_machines_are_never_touched(stage: Stage) -> None:
    stage.agents.script(*[NOBODY] * 2)
    for _ in range(2):
        stage.cloud.make("other/op-1.1", "inst-other")
    orphans = Orphans(stage.ports, stage.settings)

    for _ in range(4):
        await orphans.reconcile()
        await stage.pass_time(1000.0)

    assert await recorded(stage) == []


@staged
async def test_more_orphans_than_are_plausible_are_left_alone_and_said_aloud(stage: Stage) -> None:
    allowed = stage.settings.orphans_floor
    await stray(stage, allowed + 1)
    orphans = Orphans(stage.ports, stage.settings)
    await orphans.reconcile()
    for _ in range(2):
        await stage.pass_time(400.0)
        with pytest.raises(Implausible, match=f"{allowed + 1} machines at cloud have no record"):
            await orphans.reconcile()

    assert await recorded(stage) == []
    braked = await stage.events(name="orphans_brake")
    assert braked
    assert f"{allowed + 1} machines" in braked[0].detail
    assert stage.complaints.pop().getMessage() == "orphans brake"
    stage.complaints.clear()

    stage.cloud.end("i-0001")
    await orphans.reconcile()
    assert len(await recorded(stage)) == allowed


@staged
async def test_machines_of_launches_that_we_closed_are_given_back_however_many(stage: Stage) -> None:
    await stage.template()
    replica = await stage.replica()
    operation = await stage.succeeded(await replica.provision(1))
    replica.life.kill()
    (launch,) = await stage.launches(operation.id)
    await stage.pass_time(5000.0)
    many = stage.settings.orphans_floor + 1
    late = await stray(stage, many, token=launch.token)
    unknown = await stray(stage, many)
    orphans = Orphans(stage.ports, stage.settings)

    for _ in range(5):
        with suppress(Implausible):
            await orphans.reconcile()
        await stage.pass_time(400.0)

    assert [each for each in late if each not in await recorded(stage)] == []
    assert [each for each in unknown if each in await recorded(stage)] == []
    (said,) = await stage.events(name="orphans_brake")
    assert f"{many} machines" in said.detail
    assert [each.getMessage() for each in stage.complaints] == ["orphans brake"]
    stage.complaints.clear()


@staged
async def test_a_large_fleet_may_have_more_orphans(stage: Stage) -> None:
    await stage.template(max_nodes=100)
    stage.agents.script(*[Manner(beats=False)] * 40)
    await stage.warm(40)
    share = int(40 * stage.settings.orphans_share)
    assert share > stage.settings.orphans_floor
    await stray(stage, share)
    orphans = Orphans(stage.ports, stage.settings)
    await orphans.reconcile()
    await stage.pass_time(stage.cloud.visibility_window)
    await orphans.reconcile()

    assert len(await stage.nodes(NodeState.TERMINATING)) == share


@staged
async def test_a_listing_that_breaks_off_proves_nothing(stage: Stage) -> None:
    await stray(stage)
    replica = await stage.replica()
    await stage.pass_time(100.0)
    stage.cloud.trouble = Uncertain("the region is down")
    await stage.pass_time(3000.0)
    assert await recorded(stage) == []

    stage.cloud.trouble = None
    await stage.count(1, NodeState.TERMINATED)
    assert stage.cloud.live() == []
    assert not replica.broken


@staged
async def test_a_provider_that_can_not_tell_keeps_nobody_from_looking_at_the_others(stage: Stage) -> None:
    await stray(stage)
    ports = replace(stage.ports, providers={"aloof": aloof(stage.clock), **stage.ports.providers})
    orphans = Orphans(ports, stage.settings)
    await orphans.reconcile()
    await stage.pass_time(stage.cloud.visibility_window)
    await orphans.reconcile()
    assert [node.reason for node in await stage.nodes(NodeState.TERMINATING)] == [Reason.ORPHAN]
