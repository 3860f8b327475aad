import pytest

from muster.domain.errors import Ambiguous, InvalidRequest, NotFound
from muster.domain.ids import AssignmentId, OperationId
from muster.domain.lifecycle import NodeState
from muster.domain.operation import Kind, Operation, Status
from muster.domain.reasons import Reason
from muster.enrolment.reports import Report
from tests.stage import NEVER_BOOTS, NEVER_DETACHES, Manner, Stage, staged


@staged
async def test_released_nodes_return_to_the_pool_once_they_are_clean(stage: Stage) -> None:
    await stage.template()
    stage.agents.usual = Manner(detach=20.0)
    replica = await stage.replica()
    operation = await stage.succeeded(await replica.provision(2))

    release = await replica.release(operation.id)
    await stage.count(2, NodeState.RELEASING)
    await stage.succeeded(release)

    idle = await stage.nodes(NodeState.IDLE)
    assert len(idle) == 2
    for node in idle:
        assert (node.assignment_id, node.run, node.owner, node.operation_id) == (None, None, None, None)
        assert node.last_owner == "default"


@staged
async def test_naming_assignments_releases_only_those(stage: Stage) -> None:
    await stage.template()
    replica = await stage.replica()
    operation = await stage.succeeded(await replica.provision(3))
    first, second, third = operation.members

    await stage.succeeded(await replica.release(operation.id, second.assignment_id))

    assert (await stage.node(second.node_id)).state is NodeState.IDLE
    for member in (first, third):
        assert (await stage.node(member.node_id)).state is NodeState.RUNNING


@staged
async def test_an_assignment_of_another_provision_is_refused(stage: Stage) -> None:
    await stage.template()
    replica = await stage.replica()
    operation = await stage.succeeded(await replica.provision(1))
    other = await stage.succeeded(await replica.provision(1, run="run-2"))

    with pytest.raises(NotFound):
        await replica.release(operation.id, other.members[0].assignment_id)
    with pytest.raises(NotFound):
        await replica.release(operation.id, AssignmentId("as-nobody"))
    with pytest.raises(NotFound):
        await replica.release(OperationId("op-nobody"))

    release = await stage.succeeded(await replica.release(other.id))
    with pytest.raises(InvalidRequest, match="must be a provision"):
        await replica.release(release.id)


@staged
async def test_a_run_with_one_provision_is_released_by_its_name(stage: Stage) -> None:
    await stage.template()
    replica = await stage.replica()
    await stage.succeeded(await replica.provision(2, run="ci-7"))

    await stage.succeeded(await replica.ask(replica.plane.desk.release_run("ci-7")))

    assert len(await stage.nodes(NodeState.IDLE)) == 2
    with pytest.raises(NotFound):
        await replica.ask(replica.plane.desk.release_run("ci-8"))


@staged
async def test_a_run_with_two_provisions_must_be_named_more_precisely(stage: Stage) -> None:
    await stage.template()
    replica = await stage.replica()
    first = await stage.succeeded(await replica.provision(1, run="ci-7"))
    await stage.pass_time(1.0)
    second = await stage.succeeded(await replica.provision(1, run="ci-7"))

    with pytest.raises(Ambiguous) as refusal:
        await replica.ask(replica.plane.desk.release_run("ci-7"))
    assert set(refusal.value.operation_ids) == {first.id, second.id}
    assert len(await stage.nodes(NodeState.RUNNING)) == 2

    await stage.succeeded(await replica.ask(replica.plane.desk.release_run("ci-7", latest=True)))
    (left,) = await stage.nodes(NodeState.RUNNING)
    assert left.operation_id == first.id


@staged
async def test_a_run_with_many_provisions_is_told_all_of_them(stage: Stage) -> None:
    await stage.template(max_nodes=200)
    replica = await stage.replica()
    made = [await replica.provision(1, run="ci-7") for _ in range(105)]

    with pytest.raises(Ambiguous, match=r"name one of (op-\w+, ){19}op-\w+ and 85 more$") as refusal:
        await replica.ask(replica.plane.desk.release_run("ci-7"))
    assert sorted(refusal.value.operation_ids) == sorted(each.id for each in made)


@staged
async def test_a_late_release_of_an_earlier_attempt_does_not_touch_the_later_one(stage: Stage) -> None:
    await stage.template()
    await stage.warm(1)
    replica = await stage.replica()
    first = await stage.succeeded(await replica.provision(1, run="ci-7"))
    await stage.succeeded(await replica.release(first.id))
    second = await stage.succeeded(await replica.provision(1, run="ci-7"))
    assert first.members[0].node_id == second.members[0].node_id

    await stage.succeeded(await replica.release(first.id))
    await stage.succeeded(await replica.release(first.id, first.members[0].assignment_id))

    assert (await stage.node(second.members[0].node_id)).state is NodeState.RUNNING


@staged
async def test_releasing_twice_at_once_ends_both_well(stage: Stage) -> None:
    await stage.template()
    stage.agents.usual = Manner(detach=20.0)
    replica, other = await stage.replica(), await stage.replica()
    operation = await stage.succeeded(await replica.provision(2))

    releases = [await replica.release(operation.id), await other.release(operation.id)]
    for release in releases:
        await stage.succeeded(release)

    assert len(await stage.events(name="release")) == 2
    assert len(await stage.nodes(NodeState.IDLE)) == 2


@staged
async def test_releasing_an_unfinished_provision_cancels_it(stage: Stage) -> None:
    await stage.template()
    await stage.warm(1)
    stage.agents.script(NEVER_BOOTS)
    replica = await stage.replica()
    operation = await replica.provision(2)
    await stage.pass_time(30.0)

    release = await stage.succeeded(await replica.release(operation.id))

    assert (await stage.operation(operation.id)).status is Status.CANCELLED
    assert release.ended_at is not None
    await stage.nothing_is_left(idle=1)


@staged
async def test_a_release_that_comes_after_the_commit_goes_on_from_there(stage: Stage) -> None:
    await stage.template()
    await stage.warm(1)
    replica, other = await stage.replica(), await stage.replica()
    asked: list[Operation] = []

    async def release_what_is_being_handed_over() -> None:
        (operation,) = await stage.of_kind(Kind.PROVISION)
        assert operation.committed and not operation.ended
        asked.append(await other.release(operation.id))
        await stage.pass_time(1.0)

    replica.ambush.before("apply_all", release_what_is_being_handed_over)
    provision = await stage.succeeded(await replica.provision(1))
    await stage.succeeded(asked[0])

    names = await stage.history(provision.members[0].node_id)
    assert names[-4:] == ["attached", "hand_over", "release", "clean"]
    assert await stage.events(provision.id, "cancel_requested") == []


@staged
async def test_a_release_outlives_a_provision_that_is_committed_and_has_not_ended(stage: Stage) -> None:
    """Its driver died before the hand-over; the next one stood still for longer than a release lasts."""
    await stage.template(max_runtime=7200.0)
    one = await stage.replica()

    async def die() -> None:
        one.life.kill()
        await stage.pass_time(10_000.0)

    one.ambush.before("apply_all", die)
    operation = await one.provision(2)

    async def committed() -> bool:
        return (await stage.operation(operation.id)).committed

    await stage.until(committed)
    await stage.pass_time(0.1)
    two = await stage.replica()
    release = await two.release(operation.id)
    two.life.pause(stage.loop_time + stage.settings.limits.release_operation + 10.0)
    await stage.pass_time(stage.settings.limits.release_operation + 5.0)
    assert not (await stage.operation(operation.id)).ended

    await stage.succeeded(release)

    assert (await stage.operation(operation.id)).status is Status.SUCCEEDED
    assert len(await stage.nodes(NodeState.IDLE)) == 2
    assert [event.name for event in await stage.events(name="condemn")] == []


@staged
async def test_a_node_that_does_not_come_back_is_thrown_away_and_the_release_ends(stage: Stage) -> None:
    await stage.template()
    stage.agents.script(NEVER_DETACHES, Manner())
    replica = await stage.replica()
    operation = await stage.succeeded(await replica.provision(2))
    began = stage.now

    release = await stage.ended(await replica.release(operation.id))

    limits = stage.settings.limits
    assert release.status is Status.SUCCEEDED  # the sweep was quicker: the node is on its way out
    assert limits.releasing <= stage.now - began <= limits.release_operation
    await stage.nothing_is_left(idle=1)
    assert [node.reason for node in await stage.nodes(NodeState.TERMINATED)] == [Reason.RELEASE_TIMEOUT]


@staged
async def test_a_node_whose_work_ended_by_itself_gives_itself_back(stage: Stage) -> None:
    await stage.template()
    replica = await stage.replica()
    operation = await stage.succeeded(await replica.provision(1))
    (member,) = operation.members

    await stage.enrolment.report(member.node_id, Report(detached=member.assignment_id))

    node = await stage.node(member.node_id)
    assert node.state is NodeState.IDLE
    assert (await stage.history(node.id))[-2:] == ["release", "clean"]
    assert await stage.of_kind(Kind.RELEASE) == []


@staged
async def test_a_node_that_runs_too_long_is_thrown_away(stage: Stage) -> None:
    await stage.template(max_runtime=100.0)
    replica = await stage.replica()
    operation = await stage.succeeded(await replica.provision(1))

    await stage.pass_time(95.0)
    assert (await stage.node(operation.members[0].node_id)).state is NodeState.RUNNING
    await stage.nothing_is_left()
    assert (await stage.node(operation.members[0].node_id)).reason is Reason.MAX_RUNTIME
