from muster.domain.lifecycle import NodeState
from muster.domain.requests import ProvisionRequest
from tests.stage import Manner, Stage, staged


@staged
async def test_a_request_that_the_pool_can_serve_launches_nothing(stage: Stage) -> None:
    await stage.template()
    warm = await stage.warm(3)
    replica = await stage.replica()
    before = len(stage.cloud.launches)

    operation = await stage.succeeded(await replica.provision(2))

    assert len(stage.cloud.launches) == before
    running = await stage.nodes(NodeState.RUNNING)
    assert {node.id for node in running} <= {node.id for node in warm}
    assert {member.node_id for member in operation.members} == {node.id for node in running}
    assert len(await stage.nodes(NodeState.IDLE)) == 1


@staged
async def test_a_warm_hand_over_looks_when_it_begins_and_when_all_are_attached(stage: Stage) -> None:
    await stage.template()
    await stage.warm(3)
    replica = await stage.replica()
    replica.ambush.armed = True

    operation = await stage.succeeded(await replica.provision(3))

    assert len(operation.members) == 3
    assert replica.ambush.calls.count("view") == 2, "what it writes itself gives it no reason to look"


@staged
async def test_an_empty_pool_means_one_call_for_all_nodes(stage: Stage) -> None:
    await stage.template()
    replica = await stage.replica()

    operation = await stage.succeeded(await replica.provision(3))

    [(_, request)] = stage.cloud.launches
    assert request.count == 3
    (launch,) = await stage.launches(operation.id)
    assert request.token == launch.token
    running = await stage.nodes(NodeState.RUNNING)
    assert [node.launch_id for node in running] == [launch.id] * 3
    assert len({member.assignment_id for member in operation.members}) == 3


@staged
async def test_warm_and_cold_nodes_are_handed_over_together(stage: Stage) -> None:
    await stage.template()
    warm = await stage.warm(2)
    stage.agents.usual = Manner(boot=100.0)
    replica = await stage.replica()

    operation = await replica.provision(3)
    claimed = await stage.count(2, NodeState.CLAIMED)
    assert stage.cloud.launches[-1][1].count == 1

    async def all_attached_but_the_cold_one() -> bool:
        return all([(await stage.node(node.id)).attached for node in claimed])

    await stage.until(all_attached_but_the_cold_one)
    await stage.pass_time(90.0)
    assert not await stage.nodes(NodeState.RUNNING)
    operation = await stage.succeeded(operation)

    running = await stage.nodes(NodeState.RUNNING)
    assert len(running) == 3
    assert {node.id for node in warm} < {node.id for node in running}
    assert len({node.entered_at for node in running}) == 1
    assert {node.assignment_id for node in running} == {each.assignment_id for each in operation.members}


@staged
async def test_the_hand_over_gives_each_node_the_longest_run_from_the_commit_on(stage: Stage) -> None:
    await stage.template(max_runtime=1000.0)
    await stage.warm(1)
    replica = await stage.replica()

    usual = await stage.succeeded(await replica.provision(1))
    longer = await stage.succeeded(await replica.provision(1, run="run-2", max_runtime=5000.0))

    for operation, runtime in ((usual, 1000.0), (longer, 5000.0)):
        (node,) = await stage.of(operation.id)
        assert operation.committed_at is not None
        assert node.deadline_at == operation.committed_at + runtime
        assert node.deadline_source == "max_runtime"


@staged
async def test_a_node_without_a_fresh_heartbeat_is_not_handed_over(stage: Stage) -> None:
    await stage.template()
    warm = await stage.warm(1)
    stage.agents.of(warm[0].id).silence()
    await stage.pass_time(stage.settings.limits.stale_after + 5.0)
    replica = await stage.replica()

    operation = await stage.succeeded(await replica.provision(1))

    assert [member.node_id for member in operation.members] != [warm[0].id]


@staged
async def test_a_request_for_another_class_is_not_served_from_the_pool(stage: Stage) -> None:
    await stage.template()
    await stage.warm(2)
    replica = await stage.replica()
    request = ProvisionRequest(
        template="ci", count=1, run="run-1", resource_class="xlarge", instance_types=("m*",)
    )

    await stage.succeeded(await replica.ask(replica.plane.desk.provision(request)))

    assert len(await stage.nodes(NodeState.IDLE)) == 2
    asked = stage.cloud.launches[-1][1]
    assert (asked.resource_class.name, asked.instance_types) == ("xlarge", ("m*",))
