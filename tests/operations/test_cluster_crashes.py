"""The replica that makes or deletes a cluster is killed, or stopped beyond its lease, before and after every
call that changes something; a cancel comes at every such moment. Nothing is leaked, changed or made twice."""

from collections.abc import Awaitable, Callable

import pytest

from muster.domain.cluster import ClusterState
from muster.domain.errors import NotCancellable
from muster.domain.operation import Kind, Operation, Status
from muster.operations.submission import request_cancel
from muster_simulation.arm import Fault, Paces
from muster_simulation.arm.faults import Verb
from tests.stage import Replica, Stage
from tests.stage.ambush import READS
from tests.stage.azure import batch, cluster, create, delete, nothing_of_ours
from tests.stage.stage import play

LONG = 100.0
"""Seconds: more than a lease, and the time that the other one needs to finish."""
BRISK = Paces(create=10.0, pool=5.0, abort=5.0, delete=10.0, group_delete=5.0)
"""So that little time passes between the moments that matter."""

Blow = Callable[[Stage, Replica], Awaitable[None]]
Story = Callable[[Stage, Replica, Replica], Awaitable[None]]


async def kill(stage: Stage, replica: Replica) -> None:
    await replica.life.die()


async def stop_beyond_the_lease(stage: Stage, replica: Replica) -> None:
    replica.life.pause(stage.loop_time + LONG)
    await stage.pass_time(0)


async def insist(first: Replica, second: Replica) -> Operation:
    try:
        return await create(first, key="key-1")
    except ConnectionError:
        return await create(second, key="key-1")


async def everybody_is_awake(replica: Replica, stage: Stage) -> None:
    while replica.life.paused:
        await stage.pass_time(1.0)
    await stage.pass_time(1.0)


async def make(stage: Stage, first: Replica, second: Replica) -> None:
    operation = await stage.ended(await insist(first, second))
    assert operation.status is Status.SUCCEEDED, operation.verdict
    await everybody_is_awake(first, stage)
    assert (await cluster(stage)).state is ClusterState.READY
    assert not stage.arm.changed
    assert len(stage.arm.clusters) == len(stage.arm.groups) == len(stage.arm.assignments) == 1
    assert await stage.store.clusters.token((await cluster(stage)).id) is None


async def remove(stage: Stage, first: Replica, second: Replica) -> None:
    await stage.succeeded(await create(second))
    first.ambush.armed = True
    try:
        operation = await delete(first)
    except ConnectionError:
        if (await cluster(stage)).state is ClusterState.DELETED:
            nothing_of_ours(stage)
            return
        operation = await delete(second)
    assert (await stage.ended(operation)).status is Status.SUCCEEDED
    await everybody_is_awake(first, stage)
    nothing_of_ours(stage)


def moments(calls: list[str], blow: Blow | None) -> list[int]:
    """Where a blow can make a difference: around what changes the cluster, its operation or Azure."""
    changing = [
        number
        for number, verb in enumerate(calls)
        if verb not in READS and verb.startswith(("clusters.", "azure.", "write_operation"))
    ]
    before = [2 * number for number in changing]
    return before if blow is stop_beyond_the_lease else sorted(before + [moment + 1 for moment in before])


@pytest.mark.parametrize("blow", [kill, stop_beyond_the_lease])
@pytest.mark.parametrize("story", [make, remove])
def test_a_blow_at_any_call_changes_no_outcome(story: Story, blow: Blow) -> None:
    calls = play(lambda stage: tell(stage, story, at=-1, blow=blow))
    assert len(moments(calls, blow)) > 5
    for at in moments(calls, blow):
        try:
            play(lambda stage, at=at: tell(stage, story, at=at, blow=blow))  # type: ignore[misc]
        except BaseException as error:
            moment = "after" if at % 2 else "before"
            error.add_note(f"{blow.__name__} {moment} call {at // 2} of {calls}")
            raise


async def tell(stage: Stage, story: Story, *, at: int, blow: Blow) -> list[str]:
    stage.arm.paces = BRISK
    await batch(stage)
    first, second = await stage.replica(), await stage.replica()
    first.ambush.armed = story is make
    first.ambush.lay(at, lambda: blow(stage, first))
    await story(stage, first, second)
    return first.ambush.calls


def test_a_cancel_at_any_moment_leaves_nothing_that_was_made() -> None:
    calls = play(lambda stage: create_and_cancel(stage, at=-1))
    after_submission = 2 * calls.index("clusters.submit") + 1
    for at in moments(calls, None):
        if at >= after_submission:
            try:
                play(lambda stage, at=at: create_and_cancel(stage, at=at))  # type: ignore[misc]
            except BaseException as error:
                error.add_note(f"cancelled at call {at // 2} of {calls}")
                raise


async def create_and_cancel(stage: Stage, *, at: int) -> list[str]:
    stage.arm.paces = BRISK
    await batch(stage)
    replica = await stage.replica()
    replica.ambush.armed = True
    answers: list[str] = []

    async def cancel() -> None:
        (operation,) = await stage.of_kind(Kind.CLUSTER_CREATE)
        try:
            await request_cancel(stage.store, operation.id, now=stage.now)
            answers.append("cancelled")
        except NotCancellable as refusal:
            answers.append(str(refusal))

    replica.ambush.lay(at, cancel)
    operation = await stage.ended(await create(replica))
    if answers == ["cancelled"]:
        assert operation.status is Status.CANCELLED, operation.verdict
        assert (await cluster(stage)).state is ClusterState.DELETED
        nothing_of_ours(stage)
    else:
        assert operation.status is Status.SUCCEEDED
        assert not answers or "delete the cluster instead" in answers[0]
    assert not stage.arm.changed
    return replica.ambush.calls


@pytest.mark.parametrize("seconds", [0.0, 30.0, 79.0])
def test_a_cancel_and_then_a_crash_still_leaves_nothing(seconds: float) -> None:
    async def scenario(stage: Stage) -> None:
        await batch(stage)
        first, second = await stage.replica(), await stage.replica()
        operation = await create(first)
        await stage.pass_time(seconds)
        await second.ask(second.plane.desk.cancel(operation.id))
        await stage.pass_time(0.5)
        await first.life.die()
        assert (await stage.ended(operation)).status is Status.CANCELLED
        nothing_of_ours(stage)

    play(scenario)


@pytest.mark.parametrize("verb", [Verb.PUT_GROUP, Verb.PUT_CLUSTER, Verb.PUT_ASSIGNMENT])
def test_an_answer_that_was_lost_is_found_out_and_nothing_is_made_twice(verb: Verb) -> None:
    async def scenario(stage: Stage) -> None:
        await batch(stage)
        stage.arm.faults.add(Fault(on=verb, loses=True))
        replica = await stage.replica()
        await stage.succeeded(await create(replica))
        assert not stage.arm.changed
        assert len(stage.arm.assignments) == 1

    play(scenario)
