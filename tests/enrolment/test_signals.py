from dataclasses import replace

import pytest

from muster.domain import node as nodes
from muster.domain.desired_state import Directive
from muster.domain.errors import Gone, NotFound
from muster.domain.ids import AssignmentId, NodeId
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Operation
from muster.domain.reasons import Reason
from muster.enrolment.reports import Report
from tests.stage import NEVER_ATTACHES, NEVER_BOOTS, NEVER_DETACHES, Manner, Replica, Stage, staged
from tests.stage.agents import enrolling
from tests.stage.ambush import Ambush, watched_store


async def claimed(stage: Stage) -> tuple[Replica, Operation, Node]:
    """A warm node that was claimed and says nothing by itself."""
    await stage.template(attach_timeout=200.0)
    stage.agents.script(NEVER_ATTACHES)
    await stage.warm(1)
    replica = await stage.replica()
    operation = await replica.provision(1)
    (node,) = await stage.count(1, NodeState.CLAIMED)
    return replica, operation, node


def assignment_of(node: Node) -> AssignmentId:
    assert node.assignment_id is not None
    return node.assignment_id


@staged
async def test_attached_is_written_once_however_often_it_is_said(stage: Stage) -> None:
    _, operation, node = await claimed(stage)
    report = Report(booted=True, attached=assignment_of(node))

    answers = [await stage.enrolment.report(node.id, report) for _ in range(3)]
    await stage.succeeded(operation)
    await stage.enrolment.report(node.id, report)

    assert {desired.directive for desired in answers} == {Directive.ATTACH}
    assert len(await stage.events(node.id, "attached")) == 1
    assert len(await stage.events(node.id, "booted")) == 1


@staged
async def test_attached_of_an_earlier_assignment_changes_nothing(stage: Stage) -> None:
    await stage.template()
    await stage.warm(1)
    replica = await stage.replica()
    first = await stage.succeeded(await replica.provision(1))
    await stage.succeeded(await replica.release(first.id))
    (member,) = first.members
    stage.agents.of(member.node_id).manner = NEVER_ATTACHES
    second = await replica.provision(1)
    (node,) = await stage.count(1, NodeState.CLAIMED)

    desired = await stage.enrolment.report(node.id, Report(attached=member.assignment_id))

    assert desired.assignment_id == node.assignment_id != member.assignment_id
    assert await stage.node(node.id) == node
    assert not (await stage.operation(second.id)).committed


@staged
async def test_detached_of_an_earlier_assignment_does_not_end_the_present_run(stage: Stage) -> None:
    await stage.template()
    await stage.warm(1)
    replica = await stage.replica()
    first = await stage.succeeded(await replica.provision(1))
    await stage.succeeded(await replica.release(first.id))
    second = await stage.succeeded(await replica.provision(1))
    (member,) = first.members
    assert second.members[0].node_id == member.node_id

    await stage.enrolment.report(member.node_id, Report(detached=member.assignment_id))
    assert (await stage.node(member.node_id)).state is NodeState.RUNNING

    stage.agents.of(member.node_id).manner = NEVER_DETACHES
    await replica.release(second.id)
    await stage.count(1, NodeState.RELEASING)
    await stage.enrolment.report(member.node_id, Report(detached=member.assignment_id))
    assert (await stage.node(member.node_id)).state is NodeState.RELEASING
    await stage.enrolment.report(member.node_id, Report(detached=second.members[0].assignment_id))
    assert (await stage.node(member.node_id)).state is NodeState.IDLE


@staged
async def test_detached_is_written_once_however_often_it_is_said(stage: Stage) -> None:
    await stage.template()
    stage.agents.script(NEVER_DETACHES)
    replica = await stage.replica()
    operation = await stage.succeeded(await replica.provision(1))
    await replica.release(operation.id)
    await stage.count(1, NodeState.RELEASING)
    (member,) = operation.members

    for _ in range(3):
        await stage.enrolment.report(member.node_id, Report(detached=member.assignment_id))

    assert len(await stage.events(member.node_id, "clean")) == 1


@staged
async def test_a_node_that_could_not_prove_in_time_that_it_is_clean_is_kept(stage: Stage) -> None:
    """Its deadline passed while nobody was there to hear it."""
    await stage.template()
    stage.agents.script(NEVER_DETACHES)
    replica = await stage.replica()
    operation = await stage.succeeded(await replica.provision(1))
    await replica.release(operation.id)
    (node,) = await stage.count(1, NodeState.RELEASING)
    replica.life.kill()
    assert node.deadline_at is not None
    await stage.pass_time(node.deadline_at - stage.now + 1.0)
    await stage.enrolment.report(node.id, Report(detached=node.assignment_id))
    assert (await stage.node(node.id)).state is NodeState.IDLE


@staged
async def test_a_node_cannot_attach_before_it_has_booted(stage: Stage) -> None:
    await stage.template()
    stage.agents.script(NEVER_BOOTS)
    replica = await stage.replica()
    operation = await replica.provision(1)
    (node,) = await stage.count(1, NodeState.CREATED)

    await stage.enrolment.report(node.id, Report(attached=assignment_of(node)))
    assert not (await stage.node(node.id)).attached
    await stage.enrolment.report(node.id, Report(booted=True, attached=assignment_of(node)))

    assert (await stage.node(node.id)).attached
    await stage.succeeded(operation)


@staged
async def test_a_node_that_failed_cannot_boot_into_an_operation_any_more(stage: Stage) -> None:
    await stage.template()
    stage.agents.script(Manner(fails="exit 1"))
    replica = await stage.replica()
    operation = await stage.ended(await replica.provision(1))
    (node,) = await stage.of(operation.id)

    await stage.enrolment.report(node.id, Report(booted=True))

    assert (await stage.node(node.id)).state is NodeState.FAILED
    await stage.enrolment.report(node.id, Report(failed="again"))
    assert len(await stage.events(node.id, "fail")) == 1


@staged
async def test_a_node_that_cannot_attach_says_so_and_is_replaced_at_once(stage: Stage) -> None:
    _, operation, node = await claimed(stage)
    began = stage.now

    await stage.enrolment.report(
        node.id, Report(failed="no disk left", failed_assignment=assignment_of(node))
    )

    condemned = await stage.node(node.id)
    assert (condemned.state, condemned.reason) == (NodeState.TERMINATING, Reason.ATTACH_FAILED)
    assert (await stage.events(node.id, "condemn"))[0].detail == "no disk left"
    operation = await stage.succeeded(operation)
    assert node.id not in {member.node_id for member in operation.members}
    assert stage.now - began < 5.0


@pytest.mark.parametrize("stale", [None, AssignmentId("as-earlier")])
@staged
async def test_a_failure_to_attach_to_an_earlier_assignment_changes_nothing(
    stage: Stage, stale: AssignmentId | None
) -> None:
    _, operation, node = await claimed(stage)

    await stage.enrolment.report(node.id, Report(failed="no disk left", failed_assignment=stale))
    assert await stage.node(node.id) == node

    await stage.enrolment.report(node.id, Report(attached=assignment_of(node)))
    await stage.succeeded(operation)


@staged
async def test_a_claimed_node_cannot_attach_after_its_time(stage: Stage) -> None:
    replica, operation, node = await claimed(stage)
    replica.life.kill()
    await stage.pass_time(1000.0)
    condemned = await stage.store.apply(nodes.condemn(node, now=stage.now, reason=Reason.ATTACH_FAILED))

    desired = await stage.enrolment.report(node.id, Report(attached=assignment_of(node)))

    assert desired.directive is Directive.STOP
    assert await stage.node(node.id) == condemned
    assert not (await stage.operation(operation.id)).ended


@staged
async def test_a_signal_that_lost_a_race_is_looked_at_again(stage: Stage) -> None:
    _, operation, node = await claimed(stage)
    ambush = Ambush()
    ports = replace(stage.ports, store=watched_store(stage.store, ambush))
    enrolment = enrolling(ports, stage.settings)

    async def somebody_drains_it() -> None:
        await stage.store.apply(nodes.drained(node, now=stage.now))

    ambush.before("apply", somebody_drains_it)
    await enrolment.report(node.id, Report(attached=assignment_of(node)))

    after = await stage.node(node.id)
    assert after.attached and after.drain
    await stage.succeeded(operation)


@staged
async def test_signals_of_unknown_and_terminated_nodes_are_refused(stage: Stage) -> None:
    await stage.template()
    (node,) = await stage.warm(1)
    await stage.store.apply(nodes.condemn(node, now=stage.now, reason=Reason.OPERATOR))
    stage.cloud.end(node.machine_id)
    await stage.replica()
    await stage.count(1, NodeState.TERMINATED)

    with pytest.raises(Gone):
        await stage.enrolment.report(node.id, Report(booted=True))
    with pytest.raises(NotFound):
        await stage.enrolment.report(NodeId("node-nobody"), Report(booted=True))


@staged
async def test_a_node_that_gave_itself_back_after_a_silence_is_claimed_at_once(stage: Stage) -> None:
    await stage.template(max_nodes=1)
    replica = await stage.replica()
    first = await stage.succeeded(await replica.provision(1))
    (member,) = first.members
    agent = stage.agents.of(member.node_id)
    agent.silence()
    await stage.pass_time(30.0)

    await stage.succeeded(await replica.release(first.id))
    second = await stage.succeeded(await replica.provision(1))

    assert [each.node_id for each in second.members] == [member.node_id]
