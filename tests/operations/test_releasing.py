import pytest

from muster.domain.errors import Ambiguous, InvalidRequest, NotFound
from muster.domain.ids import AssignmentId, OperationId
from muster.domain.lifecycle import NodeState
from muster.domain.operation import Kind, Operation, Status
from muster.domain.reasons import Reason
from muster.enrolment.reports import Report
from tests.harness import NEVER_BOOTS, NEVER_DETACHES, Behaviour, Harness, with_harness


@with_harness
async def test_released_nodes_return_to_the_pool_once_they_are_clean(harness: Harness) -> None:
    await harness.template()
    harness.agents.usual = Behaviour(detach=20.0)
    replica = await harness.replica()
    operation = await harness.succeeded(await replica.provision(2))

    release = await replica.release(operation.id)
    await harness.count(2, NodeState.RELEASING)
    await harness.succeeded(release)

    idle = await harness.nodes(NodeState.IDLE)
    assert len(idle) == 2
    for node in idle:
        assert (node.assignment_id, node.run, node.owner, node.operation_id) == (None, None, None, None)
        assert node.last_owner == "default"


@with_harness
async def test_naming_assignments_releases_only_those(harness: Harness) -> None:
    await harness.template()
    replica = await harness.replica()
    operation = await harness.succeeded(await replica.provision(3))
    first, second, third = operation.members

    await harness.succeeded(await replica.release(operation.id, second.assignment_id))

    assert (await harness.node(second.node_id)).state is NodeState.IDLE
    for member in (first, third):
        assert (await harness.node(member.node_id)).state is NodeState.RUNNING


@with_harness
async def test_an_assignment_of_another_provision_is_refused(harness: Harness) -> None:
    await harness.template()
    replica = await harness.replica()
    operation = await harness.succeeded(await replica.provision(1))
    other = await harness.succeeded(await replica.provision(1, run="run-2"))

    with pytest.raises(NotFound):
        await replica.release(operation.id, other.members[0].assignment_id)
    with pytest.raises(NotFound):
        await replica.release(operation.id, AssignmentId("as-nobody"))
    with pytest.raises(NotFound):
        await replica.release(OperationId("op-nobody"))

    release = await harness.succeeded(await replica.release(other.id))
    with pytest.raises(InvalidRequest, match="must be a provision"):
        await replica.release(release.id)


@with_harness
async def test_a_run_with_one_provision_is_released_by_its_name(harness: Harness) -> None:
    await harness.template()
    replica = await harness.replica()
    await harness.succeeded(await replica.provision(2, run="ci-7"))

    await harness.succeeded(await replica.ask(replica.plane.desk.release_run("ci-7")))

    assert len(await harness.nodes(NodeState.IDLE)) == 2
    with pytest.raises(NotFound):
        await replica.ask(replica.plane.desk.release_run("ci-8"))


@with_harness
async def test_a_run_with_two_provisions_must_be_named_more_precisely(harness: Harness) -> None:
    await harness.template()
    replica = await harness.replica()
    first = await harness.succeeded(await replica.provision(1, run="ci-7"))
    await harness.pass_time(1.0)
    second = await harness.succeeded(await replica.provision(1, run="ci-7"))

    with pytest.raises(Ambiguous) as refusal:
        await replica.ask(replica.plane.desk.release_run("ci-7"))
    assert set(refusal.value.operation_ids) == {first.id, second.id}
    assert len(await harness.nodes(NodeState.RUNNING)) == 2

    await harness.succeeded(await replica.ask(replica.plane.desk.release_run("ci-7", latest=True)))
    (left,) = await harness.nodes(NodeState.RUNNING)
    assert left.operation_id == first.id


@with_harness
async def test_a_run_with_many_provisions_is_told_all_of_them(harness: Harness) -> None:
    await harness.template(max_nodes=200)
    replica = await harness.replica()
    made = [await replica.provision(1, run="ci-7") for _ in range(105)]

    with pytest.raises(Ambiguous, match=r"name one of (op-\w+, ){19}op-\w+ and 85 more$") as refusal:
        await replica.ask(replica.plane.desk.release_run("ci-7"))
    assert sorted(refusal.value.operation_ids) == sorted(each.id for each in made)


@with_harness
async def test_a_late_release_of_an_earlier_attempt_does_not_touch_the_later_one(harness: Harness) -> None:
    await harness.template()
    await harness.warm(1)
    replica = await harness.replica()
    first = await harness.succeeded(await replica.provision(1, run="ci-7"))
    await harness.succeeded(await replica.release(first.id))
    second = await harness.succeeded(await replica.provision(1, run="ci-7"))
    assert first.members[0].node_id == second.members[0].node_id

    await harness.succeeded(await replica.release(first.id))
    await harness.succeeded(await replica.release(first.id, first.members[0].assignment_id))

    assert (await harness.node(second.members[0].node_id)).state is NodeState.RUNNING


@with_harness
async def test_releasing_twice_at_once_ends_both_well(harness: Harness) -> None:
    await harness.template()
    harness.agents.usual = Behaviour(detach=20.0)
    replica, other = await harness.replica(), await harness.replica()
    operation = await harness.succeeded(await replica.provision(2))

    releases = [await replica.release(operation.id), await other.release(operation.id)]
    for release in releases:
        await harness.succeeded(release)

    assert len(await harness.events(name="release")) == 2
    assert len(await harness.nodes(NodeState.IDLE)) == 2


@with_harness
async def test_releasing_an_unfinished_provision_cancels_it(harness: Harness) -> None:
    await harness.template()
    await harness.warm(1)
    harness.agents.script(NEVER_BOOTS)
    replica = await harness.replica()
    operation = await replica.provision(2)
    await harness.pass_time(30.0)

    release = await harness.succeeded(await replica.release(operation.id))

    assert (await harness.operation(operation.id)).status is Status.CANCELLED
    assert release.ended_at is not None
    await harness.nothing_is_left(idle=1)


@with_harness
async def test_a_release_that_comes_after_the_commit_goes_on_from_there(harness: Harness) -> None:
    await harness.template()
    await harness.warm(1)
    replica, other = await harness.replica(), await harness.replica()
    asked: list[Operation] = []

    async def release_what_is_being_handed_over() -> None:
        (operation,) = await harness.of_kind(Kind.PROVISION)
        assert operation.committed and not operation.ended
        asked.append(await other.release(operation.id))
        await harness.pass_time(1.0)

    replica.interceptor.in_steps = True
    replica.interceptor.before("apply_all", release_what_is_being_handed_over)
    provision = await harness.succeeded(await replica.provision(1))
    await harness.succeeded(asked[0])

    names = await harness.history(provision.members[0].node_id)
    assert names[-4:] == ["attached", "hand_over", "release", "clean"]
    assert await harness.events(provision.id, "cancel_requested") == []


@with_harness
async def test_a_release_outlives_a_provision_that_is_committed_and_has_not_ended(harness: Harness) -> None:
    """Its driver died before the hand-over; the next one stood still for longer than a release lasts."""
    await harness.template(max_runtime=7200.0)
    one = await harness.replica()

    async def die() -> None:
        one.life.kill()
        await harness.pass_time(10_000.0)

    one.interceptor.in_steps = True
    one.interceptor.before("apply_all", die)
    operation = await one.provision(2)

    async def committed() -> bool:
        return (await harness.operation(operation.id)).committed

    await harness.until(committed)
    await harness.pass_time(0.1)
    two = await harness.replica()
    release = await two.release(operation.id)
    two.life.pause(harness.loop_time + harness.settings.limits.release_operation + 10.0)
    await harness.pass_time(harness.settings.limits.release_operation + 5.0)
    assert not (await harness.operation(operation.id)).ended

    await harness.succeeded(release)

    assert (await harness.operation(operation.id)).status is Status.SUCCEEDED
    assert len(await harness.nodes(NodeState.IDLE)) == 2
    assert [event.name for event in await harness.events(name="condemn")] == []


@with_harness
async def test_a_node_that_does_not_come_back_is_thrown_away_and_the_release_ends(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(NEVER_DETACHES, Behaviour())
    replica = await harness.replica()
    operation = await harness.succeeded(await replica.provision(2))
    began = harness.now

    release = await harness.ended(await replica.release(operation.id))

    limits = harness.settings.limits
    assert release.status is Status.SUCCEEDED  # the sweep was quicker: the node is on its way out
    assert limits.releasing <= harness.now - began <= limits.release_operation
    await harness.nothing_is_left(idle=1)
    assert [node.reason for node in await harness.nodes(NodeState.TERMINATED)] == [Reason.RELEASE_TIMEOUT]


@with_harness
async def test_a_node_whose_work_ended_by_itself_gives_itself_back(harness: Harness) -> None:
    await harness.template()
    replica = await harness.replica()
    operation = await harness.succeeded(await replica.provision(1))
    (member,) = operation.members

    await harness.enrolment.report(member.node_id, Report(detached=member.assignment_id))

    node = await harness.node(member.node_id)
    assert node.state is NodeState.IDLE
    assert (await harness.history(node.id))[-2:] == ["release", "clean"]
    assert await harness.of_kind(Kind.RELEASE) == []


@with_harness
async def test_a_node_that_runs_too_long_is_thrown_away(harness: Harness) -> None:
    await harness.template(max_runtime=100.0)
    replica = await harness.replica()
    operation = await harness.succeeded(await replica.provision(1))

    await harness.pass_time(95.0)
    assert (await harness.node(operation.members[0].node_id)).state is NodeState.RUNNING
    await harness.nothing_is_left()
    assert (await harness.node(operation.members[0].node_id)).reason is Reason.MAX_RUNTIME
