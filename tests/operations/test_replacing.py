from muster.domain import node as nodes
from muster.domain.lifecycle import NodeState
from muster.domain.reasons import Reason
from muster.ports.store import Beat
from tests.harness import NEVER_ATTACHES, Behaviour, Harness, with_harness


@with_harness
async def test_a_claimed_node_that_never_attaches_is_replaced_from_the_pool(harness: Harness) -> None:
    await harness.template(attach_timeout=30.0)
    (good,) = await harness.warm(1)
    await harness.pass_time(1.0)
    harness.agents.script(NEVER_ATTACHES)
    (bad,) = await harness.warm(1)  # idle for the shortest time, so it is claimed first
    launches = len(harness.cloud.launches)
    replica = await harness.replica()

    operation = await harness.succeeded(await replica.provision(1))

    assert [member.node_id for member in operation.members] == [good.id]
    assert len(harness.cloud.launches) == launches
    bad = await harness.node(bad.id)
    assert bad.reason is Reason.ATTACH_FAILED
    assert bad.state in (NodeState.TERMINATING, NodeState.TERMINATED)


@with_harness
async def test_when_the_pool_is_exhausted_one_launch_replaces_what_did_not_attach(harness: Harness) -> None:
    await harness.template(attach_timeout=30.0)
    harness.agents.script(NEVER_ATTACHES, NEVER_ATTACHES)
    bad = await harness.warm(2)
    launches = len(harness.cloud.launches)
    replica = await harness.replica()

    operation = await harness.succeeded(await replica.provision(2))

    assert [request.count for _, request in harness.cloud.launches[launches:]] == [2]
    assert not {member.node_id for member in operation.members} & {node.id for node in bad}
    assert {(await harness.node(node.id)).reason for node in bad} == {Reason.ATTACH_FAILED}


@with_harness
async def test_a_claimed_node_that_dies_after_attaching_is_replaced_before_the_commit(
    harness: Harness,
) -> None:
    await harness.template()
    harness.agents.script(Behaviour(silent_after_attach=True))
    (dying,) = await harness.warm(1)
    harness.agents.script(Behaviour(boot=300.0))
    replica = await harness.replica()

    operation = await harness.succeeded(await replica.provision(2))

    assert dying.id not in {member.node_id for member in operation.members}
    assert (await harness.node(dying.id)).reason is Reason.HEARTBEAT_LOST
    running = await harness.nodes(NodeState.RUNNING)
    assert {node.id for node in running} == {member.node_id for member in operation.members}
    assert all(node.attached for node in running)


@with_harness
async def test_a_node_that_beats_while_it_is_being_buried_is_spared(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(Behaviour(silent_after_attach=True))
    (quiet,) = await harness.warm(1)
    harness.agents.script(Behaviour(boot=300.0))
    replica = await harness.replica()
    heard: list[float] = []

    async def beat() -> None:
        heard.append(harness.now)
        await harness.store.record_beats([Beat(node_id=quiet.id, seen_at=harness.now)])

    replica.interceptor.before("apply", beat)
    await harness.succeeded(await replica.provision(2))

    (condemned,) = [event for event in await harness.events(quiet.id) if event.name == "condemn"]
    assert condemned.at > heard[0] + harness.settings.limits.silence_limit


@with_harness
async def test_a_death_that_is_not_proven_yet_holds_the_commit_back(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(Behaviour(silent_after_attach=True))
    (node,) = await harness.warm(1)
    harness.agents.script(Behaviour(boot=60.0))
    replica = await harness.replica()

    operation = await replica.provision(2)
    await harness.pass_time(70.0)  # both attached, one of them silent for longer than a beat may be old
    why = await replica.ask(replica.plane.desk.why(operation.id))
    assert not (await harness.operation(operation.id)).committed
    assert why.waits_for == "waiting for fresh heartbeats of all nodes"

    agent = harness.agents.of(node.id)
    agent.manner = Behaviour()  # it is heard again
    operation = await harness.succeeded(operation)
    assert node.id in {member.node_id for member in operation.members}


@with_harness
async def test_a_created_node_that_fails_is_replaced_as_often_as_the_template_says(harness: Harness) -> None:
    await harness.template(replacements=1)
    harness.agents.script(Behaviour(), Behaviour(fails="exit 3"))
    replica = await harness.replica()

    operation = await harness.succeeded(await replica.provision(2))

    assert [request.count for _, request in harness.cloud.launches] == [2, 1]
    assert len(operation.members) == 2
    await harness.count(1, NodeState.TERMINATED)
    assert len(harness.cloud.live()) == 2


@with_harness
async def test_one_failure_more_than_may_be_replaced_fails_the_provision(harness: Harness) -> None:
    await harness.template(replacements=1)
    harness.agents.script(Behaviour(fails="exit 3"), Behaviour(fails="exit 3"))
    replica = await harness.replica()

    operation = await harness.ended(await replica.provision(1))

    assert operation.verdict is not None
    assert operation.verdict.reason is Reason.BOOT_SCRIPT_FAILED
    await harness.nothing_is_left()


@with_harness
async def test_a_node_that_is_lost_at_the_very_moment_of_the_commit_is_not_handed_over(
    harness: Harness,
) -> None:
    await harness.template()
    (doomed, spare) = await harness.warm(2)
    replica = await harness.replica()

    async def lose_what_was_claimed() -> None:
        (node,) = await harness.nodes(NodeState.CLAIMED)
        assert node.attached
        await harness.store.apply(nodes.condemn(node, now=harness.now, reason=Reason.MACHINE_GONE))

    replica.interceptor.before("complete", lose_what_was_claimed)
    operation = await harness.succeeded(await replica.provision(1))

    (lost,) = [node for node in await harness.nodes() if node.reason is Reason.MACHINE_GONE]
    (member,) = operation.members
    assert {lost.id, member.node_id} == {doomed.id, spare.id}
    assert len(await harness.events(operation.id, "committed")) == 1
