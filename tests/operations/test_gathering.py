from muster.domain.lifecycle import NodeState
from muster.domain.requests import ProvisionRequest
from tests.harness import Behaviour, Harness, with_harness


@with_harness
async def test_a_request_that_the_pool_can_serve_launches_nothing(harness: Harness) -> None:
    await harness.template()
    warm = await harness.warm(3)
    replica = await harness.replica()
    before = len(harness.cloud.launches)

    operation = await harness.succeeded(await replica.provision(2))

    assert len(harness.cloud.launches) == before
    running = await harness.nodes(NodeState.RUNNING)
    assert {node.id for node in running} <= {node.id for node in warm}
    assert {member.node_id for member in operation.members} == {node.id for node in running}
    assert len(await harness.nodes(NodeState.IDLE)) == 1


@with_harness
async def test_a_warm_hand_over_looks_when_it_begins_and_when_all_are_attached(harness: Harness) -> None:
    await harness.template()
    await harness.warm(3)
    replica = await harness.replica()
    replica.interceptor.armed = True

    operation = await harness.succeeded(await replica.provision(3))

    assert len(operation.members) == 3
    assert replica.interceptor.calls.count("view") == 2, "what it writes itself gives it no reason to look"


@with_harness
async def test_an_empty_pool_means_one_call_for_all_nodes(harness: Harness) -> None:
    await harness.template()
    replica = await harness.replica()

    operation = await harness.succeeded(await replica.provision(3))

    [(_, request)] = harness.cloud.launches
    assert request.count == 3
    (launch,) = await harness.launches(operation.id)
    assert request.token == launch.token
    running = await harness.nodes(NodeState.RUNNING)
    assert [node.launch_id for node in running] == [launch.id] * 3
    assert len({member.assignment_id for member in operation.members}) == 3


@with_harness
async def test_warm_and_cold_nodes_are_handed_over_together(harness: Harness) -> None:
    await harness.template()
    warm = await harness.warm(2)
    harness.agents.usual = Behaviour(boot=100.0)
    replica = await harness.replica()

    operation = await replica.provision(3)
    claimed = await harness.count(2, NodeState.CLAIMED)
    assert harness.cloud.launches[-1][1].count == 1

    async def all_attached_but_the_cold_one() -> bool:
        return all([(await harness.node(node.id)).attached for node in claimed])

    await harness.until(all_attached_but_the_cold_one)
    await harness.pass_time(90.0)
    assert not await harness.nodes(NodeState.RUNNING)
    operation = await harness.succeeded(operation)

    running = await harness.nodes(NodeState.RUNNING)
    assert len(running) == 3
    assert {node.id for node in warm} < {node.id for node in running}
    assert len({node.entered_at for node in running}) == 1
    assert {node.assignment_id for node in running} == {each.assignment_id for each in operation.members}


@with_harness
async def test_the_hand_over_gives_each_node_the_longest_run_from_the_commit_on(harness: Harness) -> None:
    await harness.template(max_runtime=1000.0)
    await harness.warm(1)
    replica = await harness.replica()

    usual = await harness.succeeded(await replica.provision(1))
    longer = await harness.succeeded(await replica.provision(1, run="run-2", max_runtime=5000.0))

    for operation, runtime in ((usual, 1000.0), (longer, 5000.0)):
        (node,) = await harness.of(operation.id)
        assert operation.committed_at is not None
        assert node.deadline_at == operation.committed_at + runtime
        assert node.deadline_source == "max_runtime"


@with_harness
async def test_a_node_without_a_fresh_heartbeat_is_not_handed_over(harness: Harness) -> None:
    await harness.template()
    warm = await harness.warm(1)
    harness.agents.of(warm[0].id).silence()
    await harness.pass_time(harness.settings.limits.stale_after + 5.0)
    replica = await harness.replica()

    operation = await harness.succeeded(await replica.provision(1))

    assert [member.node_id for member in operation.members] != [warm[0].id]


@with_harness
async def test_a_request_for_another_class_is_not_served_from_the_pool(harness: Harness) -> None:
    await harness.template()
    await harness.warm(2)
    replica = await harness.replica()
    request = ProvisionRequest(
        template="ci", count=1, run="run-1", resource_class="xlarge", instance_types=("m*",)
    )

    await harness.succeeded(await replica.ask(replica.plane.desk.provision(request)))

    assert len(await harness.nodes(NodeState.IDLE)) == 2
    asked = harness.cloud.launches[-1][1]
    assert (asked.resource_class.name, asked.instance_types) == ("xlarge", ("m*",))
