"""Room under the caps: never exceeded, made where it can be, waited for with claims in hand."""

import asyncio
from typing import Any

import pytest

from muster.domain.lifecycle import NodeState
from muster.domain.operation import Operation, Status
from muster.domain.provision_decisions import WAYS_MOST
from muster.domain.reasons import Reason
from tests.stage import Manner, Replica, Stage, gives, loses_the_reply, staged


async def many(replicas: list[Replica], count: int, **request: Any) -> list[Operation]:
    asked = [
        replicas[number % 2].provision(1 + number % 3, run=f"run-{number}", **request)
        for number in range(count)
    ]
    return list(await asyncio.gather(*asked))


@staged
async def test_fifty_provisions_at_once_never_exceed_the_cap_of_their_template(stage: Stage) -> None:
    await stage.template(max_nodes=20)
    stage.cloud.script(loses_the_reply(), loses_the_reply(), loses_the_reply())
    stage.cloud.stop_seconds = 30.0
    replicas = [await stage.replica(), await stage.replica()]

    operations = [await stage.ended(each) for each in await many(replicas, 50)]

    assert stage.cloud.most == 20
    served = [each for each in operations if each.status is Status.SUCCEEDED]
    assert 17 <= sum(len(each.members) for each in served) <= 20
    refused = {each.verdict.reason for each in operations if each.verdict}
    assert refused == {Reason.CAP_REACHED}


@staged
async def test_fifty_provisions_of_two_templates_never_exceed_the_cap_over_all(stage: Stage) -> None:
    await stage.template()
    await stage.template(name="other")
    await stage.cap(15)
    replicas = [await stage.replica(), await stage.replica()]

    asked = [await many(replicas, 25), await many(replicas, 25, template="other")]
    operations = [await stage.ended(each) for half in asked for each in half]

    assert stage.cloud.most == 15
    served = [each for each in operations if each.status is Status.SUCCEEDED]
    assert sum(len(each.members) for each in served) == 15


@staged
async def test_fifty_patient_provisions_are_all_served_in_the_end(stage: Stage) -> None:
    await stage.template(max_nodes=6, max_runtime=30.0)
    replicas = [await stage.replica(), await stage.replica()]

    for each in await many(replicas, 50, queue_timeout=3000.0):
        await stage.succeeded(each)

    assert stage.cloud.most == 6


@staged
async def test_a_cap_that_cannot_suffice_is_said_at_once(stage: Stage) -> None:
    await stage.template(max_nodes=3)
    replica = await stage.replica()
    await stage.succeeded(await replica.provision(2))
    began = stage.now

    operation = await stage.ended(await replica.provision(2, run="run-2"))

    assert operation.verdict is not None
    assert operation.verdict.reason is Reason.CAP_REACHED
    assert "uses 2 of 3" in operation.verdict.message
    assert stage.now - began < 1.0


@staged
async def test_idle_nodes_of_an_old_revision_make_way(stage: Stage) -> None:
    await stage.template(max_nodes=3, min_idle=3)
    old = await stage.warm(3)
    await stage.template(max_nodes=3, min_idle=3, boot_script="echo new")
    stage.cloud.stop_seconds = 20.0
    replica = await stage.replica()

    operation = await stage.succeeded(await replica.provision(2))

    assert len(operation.members) == 2
    retired = [node for node in [await stage.node(each.id) for each in old] if node.reason is Reason.RETIRED]
    assert len(retired) >= 2


@pytest.mark.parametrize("queue_timeout", [0.0, 300.0])
@staged
async def test_idle_nodes_of_another_owner_make_way_and_the_claims_are_kept(
    stage: Stage, queue_timeout: float
) -> None:
    await stage.template(max_nodes=3)
    replica = await stage.replica()
    rival = await stage.succeeded(await replica.provision(2, owner="rival"))
    await stage.succeeded(await replica.release(rival.id))
    (mine,) = await stage.warm(1)
    stage.cloud.stop_seconds = 60.0

    operation = await replica.provision(2, owner="acme", queue_timeout=queue_timeout)
    await stage.pass_time(30.0)
    assert (await stage.node(mine.id)).operation_id == operation.id
    evicted = await stage.nodes(NodeState.TERMINATING)
    assert [node.reason for node in evicted] == [Reason.CAP_REACHED]
    operation = await stage.succeeded(operation)

    assert mine.id in {member.node_id for member in operation.members}
    names = [event.name for event in await stage.events(mine.id)]
    assert names.count("claim") == 1
    assert len(await stage.nodes(NodeState.IDLE)) == 1


@staged
async def test_no_more_is_evicted_than_is_needed_when_replicas_race(stage: Stage) -> None:
    await stage.template(max_nodes=4)
    replica, other = await stage.replica(), await stage.replica()
    rival = await stage.succeeded(await replica.provision(4, owner="rival"))
    await stage.succeeded(await replica.release(rival.id))
    stage.cloud.stop_seconds = 10.0

    asked = [await replica.provision(1, owner="a"), await other.provision(1, owner="b", run="run-2")]
    for operation in asked:
        await stage.succeeded(operation)

    assert len(await stage.nodes(NodeState.IDLE)) == 2


@staged
async def test_another_templates_spare_nodes_make_way_but_never_its_minimum(stage: Stage) -> None:
    await stage.cap(4)
    await stage.template()
    await stage.template(name="other", min_idle=2)
    await stage.warm(4, "other")
    replica = await stage.replica()

    operation = await stage.succeeded(await replica.provision(2))
    refused = await stage.ended(await replica.provision(1, run="run-2"))

    assert len(operation.members) == 2
    assert refused.verdict is not None
    assert refused.verdict.reason is Reason.CAP_REACHED
    assert len(await stage.nodes(NodeState.IDLE, template="other")) == 2


@staged
async def test_nodes_make_way_however_many_stand_before_them_in_the_list(stage: Stage) -> None:
    await stage.cap(4)
    await stage.template()
    await stage.template(name="other", min_idle=2)
    await stage.warm(4, "other")
    replica = await stage.replica()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("muster.operations.capacity.LOOK_AT", 1)
        operation = await stage.succeeded(await replica.provision(2))

    assert len(operation.members) == 2


@staged
async def test_terminating_nodes_count_until_they_are_gone(stage: Stage) -> None:
    await stage.template(max_nodes=2, rescue_window=0.0)
    stage.cloud.stop_seconds = 100.0
    stage.agents.script(Manner(fails="exit 1"), Manner(fails="exit 1"))
    replica = await stage.replica()
    await stage.ended(await replica.provision(2))
    await stage.count(2, NodeState.TERMINATING)
    began = stage.now

    operation = await stage.succeeded(await replica.provision(2, run="run-2"))

    assert stage.now - began >= 90.0
    assert len(operation.members) == 2
    assert len(stage.cloud.live()) == 2


# --- room at a provider ---------------------------------------------------------------------------


async def crowded(stage: Stage, *, idle: int, capacity: int, **other: Any) -> list[str]:
    """A provider that is full: warm nodes of another template hold its places. Their ids."""
    await stage.template()
    await stage.template(name="other", **({"idle_timeout": 3000.0} | other))
    stage.cloud.capacity = capacity
    return [node.id for node in await stage.warm(idle, "other")]


@staged
async def test_surplus_idle_nodes_of_another_template_make_way_at_a_provider_that_is_full(
    stage: Stage,
) -> None:
    warm = await crowded(stage, idle=4, capacity=4, min_idle=1)
    stage.cloud.stop_seconds = 7.0
    replica = await stage.replica()

    operation = await stage.succeeded(await replica.provision(2))

    ended = await stage.nodes(NodeState.TERMINATED)
    assert {(node.template, node.reason) for node in ended} == {("other", Reason.CAPACITY)}
    assert len([node for node in ended if node.id in warm]) == 2, "no more than were needed"
    assert len(await stage.nodes(NodeState.IDLE, template="other")) == 2
    assert stage.cloud.most == 4
    assert len(await stage.launches(operation.id)) == 2, "asked again once, after they were gone"


@staged
async def test_what_is_free_is_used_before_others_make_way(stage: Stage) -> None:
    await crowded(stage, idle=3, capacity=4)
    replica = await stage.replica()
    await stage.succeeded(await replica.provision(2))
    assert len(await stage.nodes(NodeState.IDLE, template="other")) == 2
    assert stage.cloud.most == 4


@staged
async def test_the_minimum_of_another_template_is_not_taken_and_nobody_goes_in_vain(stage: Stage) -> None:
    warm = await crowded(stage, idle=4, capacity=4, min_idle=3)
    replica = await stage.replica()
    operation = await stage.ended(await replica.provision(2))
    assert operation.verdict is not None and operation.verdict.reason is Reason.CAPACITY
    assert sorted(node.id for node in await stage.nodes(NodeState.IDLE)) == sorted(warm)
    await stage.pass_time(600.0)
    assert sorted(node.id for node in await stage.nodes(NodeState.IDLE)) == sorted(warm), "no livelock"


@staged
async def test_room_that_others_are_quicker_to_take_is_asked_for_a_few_times_only(stage: Stage) -> None:
    """Each time that nodes made way, somebody else has the place."""
    await crowded(stage, idle=9, capacity=9)
    stage.cloud.script(*[gives(0)] * 9)
    replica = await stage.replica()
    operation = await stage.ended(await replica.provision(1))
    assert operation.verdict is not None and operation.verdict.reason is Reason.CAPACITY
    assert len(await stage.launches(operation.id)) == 1 + WAYS_MOST
    assert len(await stage.nodes(NodeState.TERMINATED)) <= WAYS_MOST


@staged
async def test_a_refusal_that_the_end_of_others_would_not_undo_costs_no_warm_node(stage: Stage) -> None:
    warm = await crowded(stage, idle=4, capacity=4)
    stage.provider.makes_way = frozenset({Reason.QUOTA})
    replica = await stage.replica()
    operation = await stage.ended(await replica.provision(1))
    assert operation.verdict is not None and operation.verdict.reason is Reason.CAPACITY
    assert sorted(node.id for node in await stage.nodes(NodeState.IDLE)) == sorted(warm)


@staged
async def test_a_replica_that_dies_while_others_make_way_leaves_no_trace(stage: Stage) -> None:
    await crowded(stage, idle=4, capacity=4, min_idle=1)
    stage.cloud.stop_seconds = 20.0
    first = await stage.replica()
    operation = await first.provision(2)
    await stage.count(2, NodeState.TERMINATING)
    first.life.kill()
    await stage.replica()
    await stage.succeeded(operation)
    assert len(await stage.nodes(NodeState.TERMINATED)) == 2
