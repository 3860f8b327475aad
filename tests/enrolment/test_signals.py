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
from tests.harness import (
    NEVER_ATTACHES,
    NEVER_BOOTS,
    NEVER_DETACHES,
    Behaviour,
    Harness,
    Replica,
    with_harness,
)
from tests.harness.agents import new_enrolment
from tests.harness.interceptor import CallInterceptor, watched_store


async def claimed(harness: Harness) -> tuple[Replica, Operation, Node]:
    """A warm node that was claimed and says nothing by itself."""
    await harness.template(attach_timeout=200.0)
    harness.agents.script(NEVER_ATTACHES)
    await harness.warm(1)
    replica = await harness.replica()
    operation = await replica.provision(1)
    (node,) = await harness.count(1, NodeState.CLAIMED)
    return replica, operation, node


def assignment_of(node: Node) -> AssignmentId:
    assert node.assignment_id is not None
    return node.assignment_id


@with_harness
async def test_attached_is_written_once_however_often_it_is_said(harness: Harness) -> None:
    _, operation, node = await claimed(harness)
    report = Report(booted=True, attached=assignment_of(node))

    answers = [await harness.enrolment.report(node.id, report) for _ in range(3)]
    await harness.succeeded(operation)
    await harness.enrolment.report(node.id, report)

    assert {desired.directive for desired in answers} == {Directive.ATTACH}
    assert len(await harness.events(node.id, "attached")) == 1
    assert len(await harness.events(node.id, "booted")) == 1


@with_harness
async def test_attached_of_an_earlier_assignment_changes_nothing(harness: Harness) -> None:
    await harness.template()
    await harness.warm(1)
    replica = await harness.replica()
    first = await harness.succeeded(await replica.provision(1))
    await harness.succeeded(await replica.release(first.id))
    (member,) = first.members
    harness.agents.of(member.node_id).manner = NEVER_ATTACHES
    second = await replica.provision(1)
    (node,) = await harness.count(1, NodeState.CLAIMED)

    desired = await harness.enrolment.report(node.id, Report(attached=member.assignment_id))

    assert desired.assignment_id == node.assignment_id != member.assignment_id
    assert await harness.node(node.id) == node
    assert not (await harness.operation(second.id)).committed


@with_harness
async def test_detached_of_an_earlier_assignment_does_not_end_the_present_run(harness: Harness) -> None:
    await harness.template()
    await harness.warm(1)
    replica = await harness.replica()
    first = await harness.succeeded(await replica.provision(1))
    await harness.succeeded(await replica.release(first.id))
    second = await harness.succeeded(await replica.provision(1))
    (member,) = first.members
    assert second.members[0].node_id == member.node_id

    await harness.enrolment.report(member.node_id, Report(detached=member.assignment_id))
    assert (await harness.node(member.node_id)).state is NodeState.RUNNING

    harness.agents.of(member.node_id).manner = NEVER_DETACHES
    await replica.release(second.id)
    await harness.count(1, NodeState.RELEASING)
    await harness.enrolment.report(member.node_id, Report(detached=member.assignment_id))
    assert (await harness.node(member.node_id)).state is NodeState.RELEASING
    await harness.enrolment.report(member.node_id, Report(detached=second.members[0].assignment_id))
    assert (await harness.node(member.node_id)).state is NodeState.IDLE


@with_harness
async def test_detached_is_written_once_however_often_it_is_said(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(NEVER_DETACHES)
    replica = await harness.replica()
    operation = await harness.succeeded(await replica.provision(1))
    await replica.release(operation.id)
    await harness.count(1, NodeState.RELEASING)
    (member,) = operation.members

    for _ in range(3):
        await harness.enrolment.report(member.node_id, Report(detached=member.assignment_id))

    assert len(await harness.events(member.node_id, "clean")) == 1


@with_harness
async def test_a_node_that_could_not_prove_in_time_that_it_is_clean_is_kept(harness: Harness) -> None:
    """Its deadline passed while no server was there to hear it."""
    await harness.template()
    harness.agents.script(NEVER_DETACHES)
    replica = await harness.replica()
    operation = await harness.succeeded(await replica.provision(1))
    await replica.release(operation.id)
    (node,) = await harness.count(1, NodeState.RELEASING)
    replica.life.kill()
    assert node.deadline_at is not None
    await harness.pass_time(node.deadline_at - harness.now + 1.0)
    await harness.enrolment.report(node.id, Report(detached=node.assignment_id))
    assert (await harness.node(node.id)).state is NodeState.IDLE


@with_harness
async def test_a_node_cannot_attach_before_it_has_booted(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(NEVER_BOOTS)
    replica = await harness.replica()
    operation = await replica.provision(1)
    (node,) = await harness.count(1, NodeState.CREATED)

    await harness.enrolment.report(node.id, Report(attached=assignment_of(node)))
    assert not (await harness.node(node.id)).attached
    await harness.enrolment.report(node.id, Report(booted=True, attached=assignment_of(node)))

    assert (await harness.node(node.id)).attached
    await harness.succeeded(operation)


@with_harness
async def test_a_node_that_failed_cannot_boot_into_an_operation_any_more(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(Behaviour(fails="exit 1"))
    replica = await harness.replica()
    operation = await harness.ended(await replica.provision(1))
    (node,) = await harness.of(operation.id)

    await harness.enrolment.report(node.id, Report(booted=True))

    assert (await harness.node(node.id)).state is NodeState.FAILED
    await harness.enrolment.report(node.id, Report(failed="again"))
    assert len(await harness.events(node.id, "fail")) == 1


@with_harness
async def test_a_node_that_cannot_attach_says_so_and_is_replaced_at_once(harness: Harness) -> None:
    _, operation, node = await claimed(harness)
    began = harness.now

    await harness.enrolment.report(
        node.id, Report(failed="no disk left", failed_assignment=assignment_of(node))
    )

    condemned = await harness.node(node.id)
    assert (condemned.state, condemned.reason) == (NodeState.TERMINATING, Reason.ATTACH_FAILED)
    assert (await harness.events(node.id, "condemn"))[0].detail == "no disk left"
    operation = await harness.succeeded(operation)
    assert node.id not in {member.node_id for member in operation.members}
    assert harness.now - began < 5.0


@pytest.mark.parametrize("stale", [None, AssignmentId("as-earlier")])
@with_harness
async def test_a_failure_to_attach_to_an_earlier_assignment_changes_nothing(
    harness: Harness, stale: AssignmentId | None
) -> None:
    _, operation, node = await claimed(harness)

    await harness.enrolment.report(node.id, Report(failed="no disk left", failed_assignment=stale))
    assert await harness.node(node.id) == node

    await harness.enrolment.report(node.id, Report(attached=assignment_of(node)))
    await harness.succeeded(operation)


@with_harness
async def test_a_claimed_node_cannot_attach_after_its_time(harness: Harness) -> None:
    replica, operation, node = await claimed(harness)
    replica.life.kill()
    await harness.pass_time(1000.0)
    condemned = await harness.store.apply(nodes.condemn(node, now=harness.now, reason=Reason.ATTACH_FAILED))

    desired = await harness.enrolment.report(node.id, Report(attached=assignment_of(node)))

    assert desired.directive is Directive.STOP
    assert await harness.node(node.id) == condemned
    assert not (await harness.operation(operation.id)).ended


@with_harness
async def test_a_signal_that_lost_a_race_is_looked_at_again(harness: Harness) -> None:
    _, operation, node = await claimed(harness)
    interceptor = CallInterceptor()
    ports = replace(harness.ports, store=watched_store(harness.store, interceptor))
    enrolment = new_enrolment(ports, harness.settings)

    async def an_operator_drains_it() -> None:
        await harness.store.apply(nodes.drained(node, now=harness.now))

    interceptor.before("apply", an_operator_drains_it)
    await enrolment.report(node.id, Report(attached=assignment_of(node)))

    after = await harness.node(node.id)
    assert after.attached and after.drain
    await harness.succeeded(operation)


@with_harness
async def test_signals_of_unknown_and_terminated_nodes_are_refused(harness: Harness) -> None:
    await harness.template()
    (node,) = await harness.warm(1)
    await harness.store.apply(nodes.condemn(node, now=harness.now, reason=Reason.OPERATOR))
    harness.cloud.end(node.machine_id)
    await harness.replica()
    await harness.count(1, NodeState.TERMINATED)

    with pytest.raises(Gone):
        await harness.enrolment.report(node.id, Report(booted=True))
    with pytest.raises(NotFound):
        await harness.enrolment.report(NodeId("node-nobody"), Report(booted=True))


@with_harness
async def test_a_node_that_gave_itself_back_after_a_silence_is_claimed_at_once(harness: Harness) -> None:
    await harness.template(max_nodes=1)
    replica = await harness.replica()
    first = await harness.succeeded(await replica.provision(1))
    (member,) = first.members
    agent = harness.agents.of(member.node_id)
    agent.silence()
    await harness.pass_time(30.0)

    await harness.succeeded(await replica.release(first.id))
    second = await harness.succeeded(await replica.provision(1))

    assert [each.node_id for each in second.members] == [member.node_id]
