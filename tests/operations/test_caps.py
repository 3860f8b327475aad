"""Room under the caps: never exceeded, made where it can be, waited for with claims in hand."""

import asyncio
from typing import Any

import pytest

from muster.domain.lifecycle import NodeState
from muster.domain.operation import Operation, Status
from muster.domain.provision_decisions import WAYS_MOST
from muster.domain.reasons import Reason
from tests.harness import Behaviour, Harness, Replica, gives, loses_the_reply, with_harness


async def many(replicas: list[Replica], count: int, **request: Any) -> list[Operation]:
    asked = [
        replicas[number % 2].provision(1 + number % 3, run=f"run-{number}", **request)
        for number in range(count)
    ]
    return list(await asyncio.gather(*asked))


@with_harness
async def test_fifty_provisions_at_once_never_exceed_the_cap_of_their_template(harness: Harness) -> None:
    await harness.template(max_nodes=20)
    harness.cloud.script(loses_the_reply(), loses_the_reply(), loses_the_reply())
    harness.cloud.stop_seconds = 30.0
    replicas = [await harness.replica(), await harness.replica()]

    operations = [await harness.ended(each) for each in await many(replicas, 50)]

    assert harness.cloud.most == 20
    served = [each for each in operations if each.status is Status.SUCCEEDED]
    assert 17 <= sum(len(each.members) for each in served) <= 20
    refused = {each.verdict.reason for each in operations if each.verdict}
    assert refused == {Reason.CAP_REACHED}


@with_harness
async def test_fifty_provisions_of_two_templates_never_exceed_the_cap_over_all(harness: Harness) -> None:
    await harness.template()
    await harness.template(name="other")
    await harness.cap(15)
    replicas = [await harness.replica(), await harness.replica()]

    asked = [await many(replicas, 25), await many(replicas, 25, template="other")]
    operations = [await harness.ended(each) for half in asked for each in half]

    assert harness.cloud.most == 15
    served = [each for each in operations if each.status is Status.SUCCEEDED]
    assert sum(len(each.members) for each in served) == 15


@with_harness
async def test_fifty_patient_provisions_are_all_served_in_the_end(harness: Harness) -> None:
    await harness.template(max_nodes=6, max_runtime=30.0)
    replicas = [await harness.replica(), await harness.replica()]

    for each in await many(replicas, 50, queue_timeout=3000.0):
        await harness.succeeded(each)

    assert harness.cloud.most == 6


@with_harness
async def test_a_cap_that_cannot_suffice_is_said_at_once(harness: Harness) -> None:
    await harness.template(max_nodes=3)
    replica = await harness.replica()
    await harness.succeeded(await replica.provision(2))
    began = harness.now

    operation = await harness.ended(await replica.provision(2, run="run-2"))

    assert operation.verdict is not None
    assert operation.verdict.reason is Reason.CAP_REACHED
    assert "uses 2 of 3" in operation.verdict.message
    assert harness.now - began < 1.0


@with_harness
async def test_idle_nodes_of_an_old_revision_make_way(harness: Harness) -> None:
    await harness.template(max_nodes=3, min_idle=3)
    old = await harness.warm(3)
    await harness.template(max_nodes=3, min_idle=3, boot_script="echo new")
    harness.cloud.stop_seconds = 20.0
    replica = await harness.replica()

    operation = await harness.succeeded(await replica.provision(2))

    assert len(operation.members) == 2
    retired = [
        node for node in [await harness.node(each.id) for each in old] if node.reason is Reason.RETIRED
    ]
    assert len(retired) >= 2


@pytest.mark.parametrize("queue_timeout", [0.0, 300.0])
@with_harness
async def test_idle_nodes_of_another_owner_make_way_and_the_claims_are_kept(
    harness: Harness, queue_timeout: float
) -> None:
    await harness.template(max_nodes=3)
    replica = await harness.replica()
    rival = await harness.succeeded(await replica.provision(2, owner="rival"))
    await harness.succeeded(await replica.release(rival.id))
    (mine,) = await harness.warm(1)
    harness.cloud.stop_seconds = 60.0

    operation = await replica.provision(2, owner="acme", queue_timeout=queue_timeout)
    await harness.pass_time(30.0)
    assert (await harness.node(mine.id)).operation_id == operation.id
    evicted = await harness.nodes(NodeState.TERMINATING)
    assert [node.reason for node in evicted] == [Reason.CAP_REACHED]
    operation = await harness.succeeded(operation)

    assert mine.id in {member.node_id for member in operation.members}
    names = [event.name for event in await harness.events(mine.id)]
    assert names.count("claim") == 1
    assert len(await harness.nodes(NodeState.IDLE)) == 1


@with_harness
async def test_no_more_is_evicted_than_is_needed_when_replicas_race(harness: Harness) -> None:
    await harness.template(max_nodes=4)
    replica, other = await harness.replica(), await harness.replica()
    rival = await harness.succeeded(await replica.provision(4, owner="rival"))
    await harness.succeeded(await replica.release(rival.id))
    harness.cloud.stop_seconds = 10.0

    asked = [await replica.provision(1, owner="a"), await other.provision(1, owner="b", run="run-2")]
    for operation in asked:
        await harness.succeeded(operation)

    assert len(await harness.nodes(NodeState.IDLE)) == 2


@with_harness
async def test_another_templates_spare_nodes_make_way_but_never_its_minimum(harness: Harness) -> None:
    await harness.cap(4)
    await harness.template()
    await harness.template(name="other", min_idle=2)
    await harness.warm(4, "other")
    replica = await harness.replica()

    operation = await harness.succeeded(await replica.provision(2))
    refused = await harness.ended(await replica.provision(1, run="run-2"))

    assert len(operation.members) == 2
    assert refused.verdict is not None
    assert refused.verdict.reason is Reason.CAP_REACHED
    assert len(await harness.nodes(NodeState.IDLE, template="other")) == 2


@with_harness
async def test_nodes_make_way_however_many_stand_before_them_in_the_list(harness: Harness) -> None:
    await harness.cap(4)
    await harness.template()
    await harness.template(name="other", min_idle=2)
    await harness.warm(4, "other")
    replica = await harness.replica()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("muster.operations.capacity.LOOK_AT", 1)
        operation = await harness.succeeded(await replica.provision(2))

    assert len(operation.members) == 2


@with_harness
async def test_terminating_nodes_count_until_they_are_gone(harness: Harness) -> None:
    await harness.template(max_nodes=2, rescue_window=0.0)
    harness.cloud.stop_seconds = 100.0
    harness.agents.script(Behaviour(fails="exit 1"), Behaviour(fails="exit 1"))
    replica = await harness.replica()
    await harness.ended(await replica.provision(2))
    await harness.count(2, NodeState.TERMINATING)
    began = harness.now

    operation = await harness.succeeded(await replica.provision(2, run="run-2"))

    assert harness.now - began >= 90.0
    assert len(operation.members) == 2
    assert len(harness.cloud.live()) == 2


# --- room at a provider ---------------------------------------------------------------------------


async def crowded(harness: Harness, *, idle: int, capacity: int, **other: Any) -> list[str]:
    """A provider that is full: warm nodes of another template hold its places. Their ids."""
    await harness.template()
    await harness.template(name="other", **({"idle_timeout": 3000.0} | other))
    harness.cloud.capacity = capacity
    return [node.id for node in await harness.warm(idle, "other")]


@with_harness
async def test_surplus_idle_nodes_of_another_template_make_way_at_a_provider_that_is_full(
    harness: Harness,
) -> None:
    warm = await crowded(harness, idle=4, capacity=4, min_idle=1)
    harness.cloud.stop_seconds = 7.0
    replica = await harness.replica()

    operation = await harness.succeeded(await replica.provision(2))

    ended = await harness.nodes(NodeState.TERMINATED)
    assert {(node.template, node.reason) for node in ended} == {("other", Reason.CAPACITY)}
    assert len([node for node in ended if node.id in warm]) == 2, "no more than were needed"
    assert len(await harness.nodes(NodeState.IDLE, template="other")) == 2
    assert harness.cloud.most == 4
    assert len(await harness.launches(operation.id)) == 2, "asked again once, after they were gone"


@with_harness
async def test_what_is_free_is_used_before_others_make_way(harness: Harness) -> None:
    await crowded(harness, idle=3, capacity=4)
    replica = await harness.replica()
    await harness.succeeded(await replica.provision(2))
    assert len(await harness.nodes(NodeState.IDLE, template="other")) == 2
    assert harness.cloud.most == 4


@with_harness
async def test_the_minimum_of_another_template_is_not_taken_and_no_node_goes_in_vain(
    harness: Harness,
) -> None:
    warm = await crowded(harness, idle=4, capacity=4, min_idle=3)
    replica = await harness.replica()
    operation = await harness.ended(await replica.provision(2))
    assert operation.verdict is not None and operation.verdict.reason is Reason.CAPACITY
    assert sorted(node.id for node in await harness.nodes(NodeState.IDLE)) == sorted(warm)
    await harness.pass_time(600.0)
    assert sorted(node.id for node in await harness.nodes(NodeState.IDLE)) == sorted(warm), "no livelock"


@with_harness
async def test_room_that_others_are_quicker_to_take_is_asked_for_a_few_times_only(harness: Harness) -> None:
    """Each time that nodes made way, another request has the place."""
    await crowded(harness, idle=9, capacity=9)
    harness.cloud.script(*[gives(0)] * 9)
    replica = await harness.replica()
    operation = await harness.ended(await replica.provision(1))
    assert operation.verdict is not None and operation.verdict.reason is Reason.CAPACITY
    assert len(await harness.launches(operation.id)) == 1 + WAYS_MOST
    assert len(await harness.nodes(NodeState.TERMINATED)) <= WAYS_MOST


@with_harness
async def test_a_refusal_that_the_end_of_others_would_not_undo_costs_no_warm_node(harness: Harness) -> None:
    warm = await crowded(harness, idle=4, capacity=4)
    harness.provider.makes_way = frozenset({Reason.QUOTA})
    replica = await harness.replica()
    operation = await harness.ended(await replica.provision(1))
    assert operation.verdict is not None and operation.verdict.reason is Reason.CAPACITY
    assert sorted(node.id for node in await harness.nodes(NodeState.IDLE)) == sorted(warm)


@with_harness
async def test_a_replica_that_dies_while_others_make_way_leaves_no_trace(harness: Harness) -> None:
    await crowded(harness, idle=4, capacity=4, min_idle=1)
    harness.cloud.stop_seconds = 20.0
    first = await harness.replica()
    operation = await first.provision(2)
    await harness.count(2, NodeState.TERMINATING)
    first.life.kill()
    await harness.replica()
    await harness.succeeded(operation)
    assert len(await harness.nodes(NodeState.TERMINATED)) == 2
