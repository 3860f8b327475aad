"""Replicas that make or delete a cluster, killed or stopped beyond their lease around every call that changes
something. A cancel comes at every such moment, too. Nothing is leaked, changed or made twice."""

from collections.abc import Awaitable, Callable

import pytest

from muster.domain.cluster import ClusterState
from muster.domain.errors import NotCancellable
from muster.domain.operation import Kind, Operation, Status
from muster.operations.submission import request_cancel
from muster_simulation.arm import Fault, Paces
from muster_simulation.arm.faults import Verb
from tests.harness import Harness, Replica
from tests.harness.azure import batch, cluster, create, delete, nothing_of_ours
from tests.harness.harness import run_scenario, with_harness
from tests.harness.interceptor import READS

LONG = 100.0
"""Seconds: more than a lease, and the time that the other one needs to finish."""
BRISK = Paces(create=10.0, pool=5.0, abort=5.0, delete=10.0, group_delete=5.0)
"""So that little time passes between the moments that matter."""

ReplicaFault = Callable[[Harness, Replica], Awaitable[None]]
Scenario = Callable[[Harness, Replica, Replica], Awaitable[None]]


async def kill(harness: Harness, replica: Replica) -> None:
    await replica.life.die()


async def stop_beyond_the_lease(harness: Harness, replica: Replica) -> None:
    replica.life.pause(harness.loop_time + LONG)
    await harness.pass_time(0)


async def insist(first: Replica, second: Replica) -> Operation:
    try:
        return await create(first, key="key-1")
    except ConnectionError:
        return await create(second, key="key-1")


async def all_are_awake(replica: Replica, harness: Harness) -> None:
    while replica.life.paused:
        await harness.pass_time(1.0)
    await harness.pass_time(1.0)


async def make(harness: Harness, first: Replica, second: Replica) -> None:
    operation = await harness.ended(await insist(first, second))
    assert operation.status is Status.SUCCEEDED, operation.verdict
    await all_are_awake(first, harness)
    assert (await cluster(harness)).state is ClusterState.READY
    assert not harness.arm.changed
    assert len(harness.arm.clusters) == len(harness.arm.groups) == len(harness.arm.assignments) == 1
    assert await harness.store.clusters.token((await cluster(harness)).id) is None


async def remove(harness: Harness, first: Replica, second: Replica) -> None:
    await harness.succeeded(await create(second))
    first.interceptor.armed = True
    try:
        operation = await delete(first)
    except ConnectionError:
        if (await cluster(harness)).state is ClusterState.DELETED:
            nothing_of_ours(harness)
            return
        operation = await delete(second)
    assert (await harness.ended(operation)).status is Status.SUCCEEDED
    await all_are_awake(first, harness)
    nothing_of_ours(harness)


def moments(calls: list[str], fault: ReplicaFault | None) -> list[int]:
    """Where a blow can make a difference: around what changes the cluster, its operation or Azure."""
    changing = [
        number
        for number, verb in enumerate(calls)
        if verb not in READS and verb.startswith(("clusters.", "azure.", "write_operation"))
    ]
    before = [2 * number for number in changing]
    return before if fault is stop_beyond_the_lease else sorted(before + [moment + 1 for moment in before])


@pytest.mark.parametrize("fault", [kill, stop_beyond_the_lease])
@pytest.mark.parametrize("scenario", [make, remove])
def test_a_fault_at_any_call_changes_no_outcome(scenario: Scenario, fault: ReplicaFault) -> None:
    calls = run_scenario(lambda harness: run_with_fault(harness, scenario, at=-1, fault=fault))
    assert len(moments(calls, fault)) > 5
    for at in moments(calls, fault):
        try:
            run_scenario(lambda harness, at=at: run_with_fault(harness, scenario, at=at, fault=fault))  # type: ignore[misc]
        except BaseException as error:
            moment = "after" if at % 2 else "before"
            error.add_note(f"{fault.__name__} {moment} call {at // 2} of {calls}")
            raise


async def run_with_fault(harness: Harness, scenario: Scenario, *, at: int, fault: ReplicaFault) -> list[str]:
    harness.arm.paces = BRISK
    await batch(harness)
    first, second = await harness.replica(), await harness.replica()
    first.interceptor.armed = scenario is make
    first.interceptor.run_at(at, lambda: fault(harness, first))
    await scenario(harness, first, second)
    return first.interceptor.calls


def test_a_cancel_at_any_moment_leaves_nothing_that_was_made() -> None:
    calls = run_scenario(lambda harness: create_and_cancel(harness, at=-1))
    after_submission = 2 * calls.index("clusters.submit") + 1
    for at in moments(calls, None):
        if at >= after_submission:
            try:
                run_scenario(lambda harness, at=at: create_and_cancel(harness, at=at))  # type: ignore[misc]
            except BaseException as error:
                error.add_note(f"cancelled at call {at // 2} of {calls}")
                raise


async def create_and_cancel(harness: Harness, *, at: int) -> list[str]:
    harness.arm.paces = BRISK
    await batch(harness)
    replica = await harness.replica()
    replica.interceptor.armed = True
    answers: list[str] = []

    async def cancel() -> None:
        (operation,) = await harness.of_kind(Kind.CLUSTER_CREATE)
        try:
            await request_cancel(harness.store, operation.id, now=harness.now)
            answers.append("cancelled")
        except NotCancellable as refusal:
            answers.append(str(refusal))

    replica.interceptor.run_at(at, cancel)
    operation = await harness.ended(await create(replica))
    if answers == ["cancelled"]:
        assert operation.status is Status.CANCELLED, operation.verdict
        assert (await cluster(harness)).state is ClusterState.DELETED
        nothing_of_ours(harness)
    else:
        assert operation.status is Status.SUCCEEDED
        assert not answers or "delete the cluster instead" in answers[0]
    assert not harness.arm.changed
    return replica.interceptor.calls


@pytest.mark.parametrize("seconds", [0.0, 30.0, 79.0])
@with_harness
async def test_a_cancel_and_then_a_crash_still_leaves_nothing(harness: Harness, seconds: float) -> None:
    await batch(harness)
    first, second = await harness.replica(), await harness.replica()
    operation = await create(first)
    await harness.pass_time(seconds)
    await second.ask(second.plane.desk.cancel(operation.id))
    await harness.pass_time(0.5)
    await first.life.die()
    assert (await harness.ended(operation)).status is Status.CANCELLED
    nothing_of_ours(harness)


@pytest.mark.parametrize("verb", [Verb.PUT_GROUP, Verb.PUT_CLUSTER, Verb.PUT_ASSIGNMENT])
@with_harness
async def test_an_answer_that_was_lost_is_found_out_and_nothing_is_made_twice(
    harness: Harness, verb: Verb
) -> None:
    await batch(harness)
    harness.arm.faults.add(Fault(on=verb, loses=True))
    replica = await harness.replica()
    await harness.succeeded(await create(replica))
    assert not harness.arm.changed
    assert len(harness.arm.assignments) == 1
