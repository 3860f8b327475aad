from muster.domain import node as nodes
from muster.domain.lifecycle import NodeState
from muster.domain.reasons import Reason
from muster.ports.store import Beat
from tests.stage import NEVER_ATTACHES, Manner, Stage, staged


@staged
async def test_a_claimed_node_that_never_attaches_is_replaced_from_the_pool(stage: Stage) -> None:
    await stage.template(attach_timeout=30.0)
    (good,) = await stage.warm(1)
    await stage.pass_time(1.0)
    stage.agents.script(NEVER_ATTACHES)
    (bad,) = await stage.warm(1)  # idle for the shortest time, so it is claimed first
    launches = len(stage.cloud.launches)
    replica = await stage.replica()

    operation = await stage.succeeded(await replica.provision(1))

    assert [member.node_id for member in operation.members] == [good.id]
    assert len(stage.cloud.launches) == launches
    bad = await stage.node(bad.id)
    assert bad.reason is Reason.ATTACH_FAILED
    assert bad.state in (NodeState.TERMINATING, NodeState.TERMINATED)


@staged
async def test_when_the_pool_is_exhausted_one_launch_replaces_what_did_not_attach(stage: Stage) -> None:
    await stage.template(attach_timeout=30.0)
    stage.agents.script(NEVER_ATTACHES, NEVER_ATTACHES)
    bad = await stage.warm(2)
    launches = len(stage.cloud.launches)
    replica = await stage.replica()

    operation = await stage.succeeded(await replica.provision(2))

    assert [request.count for _, request in stage.cloud.launches[launches:]] == [2]
    assert not {member.node_id for member in operation.members} & {node.id for node in bad}
    assert {(await stage.node(node.id)).reason for node in bad} == {Reason.ATTACH_FAILED}


@staged
async def test_a_claimed_node_that_dies_after_attaching_is_replaced_before_the_commit(stage: Stage) -> None:
    await stage.template()
    stage.agents.script(Manner(silent_after_attach=True))
    (dying,) = await stage.warm(1)
    stage.agents.script(Manner(boot=300.0))
    replica = await stage.replica()

    operation = await stage.succeeded(await replica.provision(2))

    assert dying.id not in {member.node_id for member in operation.members}
    assert (await stage.node(dying.id)).reason is Reason.HEARTBEAT_LOST
    running = await stage.nodes(NodeState.RUNNING)
    assert {node.id for node in running} == {member.node_id for member in operation.members}
    assert all(node.attached for node in running)


@staged
async def test_a_node_that_beats_while_it_is_being_buried_is_spared(stage: Stage) -> None:
    await stage.template()
    stage.agents.script(Manner(silent_after_attach=True))
    (quiet,) = await stage.warm(1)
    stage.agents.script(Manner(boot=300.0))
    replica = await stage.replica()
    heard: list[float] = []

    async def beat() -> None:
        heard.append(stage.now)
        await stage.store.record_beats([Beat(node_id=quiet.id, seen_at=stage.now)])

    replica.ambush.before("apply", beat)
    await stage.succeeded(await replica.provision(2))

    (condemned,) = [event for event in await stage.events(quiet.id) if event.name == "condemn"]
    assert condemned.at > heard[0] + stage.settings.limits.silence_limit


@staged
async def test_a_death_that_is_not_proven_yet_holds_the_commit_back(stage: Stage) -> None:
    await stage.template()
    stage.agents.script(Manner(silent_after_attach=True))
    (node,) = await stage.warm(1)
    stage.agents.script(Manner(boot=60.0))
    replica = await stage.replica()

    operation = await replica.provision(2)
    await stage.pass_time(70.0)  # both attached, one of them silent for longer than a beat may be old
    why = await replica.ask(replica.plane.desk.why(operation.id))
    assert not (await stage.operation(operation.id)).committed
    assert why.waits_for == "waiting for fresh heartbeats of all nodes"

    agent = stage.agents.of(node.id)
    agent.manner = Manner()  # it is heard again
    operation = await stage.succeeded(operation)
    assert node.id in {member.node_id for member in operation.members}


@staged
async def test_a_created_node_that_fails_is_replaced_as_often_as_the_template_says(stage: Stage) -> None:
    await stage.template(replacements=1)
    stage.agents.script(Manner(), Manner(fails="exit 3"))
    replica = await stage.replica()

    operation = await stage.succeeded(await replica.provision(2))

    assert [request.count for _, request in stage.cloud.launches] == [2, 1]
    assert len(operation.members) == 2
    await stage.count(1, NodeState.TERMINATED)
    assert len(stage.cloud.live()) == 2


@staged
async def test_one_failure_more_than_may_be_replaced_fails_the_provision(stage: Stage) -> None:
    await stage.template(replacements=1)
    stage.agents.script(Manner(fails="exit 3"), Manner(fails="exit 3"))
    replica = await stage.replica()

    operation = await stage.ended(await replica.provision(1))

    assert operation.verdict is not None
    assert operation.verdict.reason is Reason.BOOT_SCRIPT_FAILED
    await stage.nothing_is_left()


@staged
async def test_a_node_that_is_lost_at_the_very_moment_of_the_commit_is_not_handed_over(stage: Stage) -> None:
    await stage.template()
    (doomed, spare) = await stage.warm(2)
    replica = await stage.replica()

    async def lose_what_was_claimed() -> None:
        (node,) = await stage.nodes(NodeState.CLAIMED)
        assert node.attached
        await stage.store.apply(nodes.condemn(node, now=stage.now, reason=Reason.MACHINE_GONE))

    replica.ambush.before("write_operation", lose_what_was_claimed)
    operation = await stage.succeeded(await replica.provision(1))

    (lost,) = [node for node in await stage.nodes() if node.reason is Reason.MACHINE_GONE]
    (member,) = operation.members
    assert {lost.id, member.node_id} == {doomed.id, spare.id}
    assert len(await stage.events(operation.id, "committed")) == 1
