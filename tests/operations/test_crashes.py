"""Replicas that drive an operation, killed or stopped beyond their lease around every call to store or
provider. Another one takes over, with the same outcome."""

from collections.abc import Awaitable, Callable

import pytest

from muster.domain.lifecycle import NodeState
from muster.domain.operation import Kind, Operation, Status
from muster.domain.reasons import Reason
from tests.harness import Behaviour, Harness, Replica, loses_the_reply
from tests.harness.harness import run_scenario
from tests.harness.interceptor import READS

LONG = 100.0
"""Seconds: more than a lease, and the time that the other one needs to finish."""

ReplicaFault = Callable[[Harness, Replica], Awaitable[None]]
Scenario = Callable[[Harness, Replica, Replica], Awaitable[None]]


async def kill(harness: Harness, replica: Replica) -> None:
    await replica.life.die()


async def stop_beyond_the_lease(harness: Harness, replica: Replica) -> None:
    """Long enough that the other one has finished the work when this one wakes up in the middle of it."""
    replica.life.pause(harness.loop_time + LONG)
    await harness.pass_time(0)


async def insist(first: Replica, second: Replica, *, count: int) -> Operation:
    """A caller that got no answer asks again, elsewhere, with the same key."""
    try:
        return await first.provision(count, key="key-1")
    except ConnectionError:
        return await second.provision(count, key="key-1")


async def all_are_awake(replica: Replica, harness: Harness) -> None:
    """A replica that was stopped has gone on, and done what it thought was next."""
    while replica.life.paused:
        await harness.pass_time(1.0)
    await harness.pass_time(1.0)


async def gather(harness: Harness, first: Replica, second: Replica) -> None:
    """One warm node and two cold ones, whose first call is answered in vain."""
    harness.cloud.script(loses_the_reply())
    operation = await harness.succeeded(await insist(first, second, count=3))

    await all_are_awake(first, harness)
    assert len(harness.cloud.boxes) == 3
    running = await harness.nodes(NodeState.RUNNING)
    assert {node.id for node in running} == {member.node_id for member in operation.members}
    assert all(node.operation_id == operation.id for node in running)
    assert [len(agent.attached) for agent in harness.agents.by_machine.values()] == [1, 1, 1]


async def gather_in_steps(harness: Harness, first: Replica, second: Replica) -> None:
    """The same where a store commits, hands over and ends one after the other."""
    first.interceptor.in_steps = second.interceptor.in_steps = True
    await gather(harness, first, second)


async def fail(harness: Harness, first: Replica, second: Replica) -> None:
    harness.agents.script(Behaviour(boot=1.0), Behaviour(boot=2.0, fails="exit 1"))
    operation = await harness.ended(await insist(first, second, count=3))

    assert operation.verdict is not None
    assert operation.verdict.reason is Reason.BOOT_SCRIPT_FAILED
    await all_are_awake(first, harness)
    await harness.nothing_is_left(idle=2)
    assert len(harness.cloud.boxes) == 3


async def give_back(harness: Harness, first: Replica, second: Replica) -> None:
    operation = await harness.succeeded(await second.provision(3))
    first.interceptor.armed = True
    try:
        release = await first.release(operation.id, key="key-2")
    except ConnectionError:
        release = await second.release(operation.id, key="key-2")
    assert (await harness.ended(release)).status is Status.SUCCEEDED
    await all_are_awake(first, harness)
    await harness.nothing_is_left(idle=3)


async def cancel(harness: Harness, first: Replica, second: Replica) -> None:
    harness.agents.script(Behaviour(boot=200.0), Behaviour(boot=200.0))
    operation = await insist(first, second, count=3)
    await second.cancel(operation.id)
    assert (await harness.ended(operation)).status is Status.CANCELLED
    await all_are_awake(first, harness)
    await harness.nothing_is_left(idle=1)
    assert len(harness.cloud.boxes) <= 3


async def refill(harness: Harness, first: Replica, second: Replica) -> None:
    await harness.template(rescue_window=0.0, min_idle=3)
    await harness.count(3, NodeState.IDLE)
    (operation,) = await harness.of_kind(Kind.REFILL)
    await harness.succeeded(operation)
    await all_are_awake(first, harness)
    await harness.nothing_is_left(idle=3)
    assert len(harness.cloud.boxes) == 3


def moments(calls: list[str], fault: ReplicaFault) -> list[int]:
    """Where a blow can make a difference. Reads change nothing: a death before one is a death after it, and
    who wakes up before one reads what is true then."""
    changing = [number for number, verb in enumerate(calls) if verb not in READS]
    before = [2 * number for number in changing]
    return before if fault is stop_beyond_the_lease else sorted(before + [moment + 1 for moment in before])


@pytest.mark.parametrize("fault", [kill, stop_beyond_the_lease])
@pytest.mark.parametrize("scenario", [gather, gather_in_steps, fail, give_back, cancel, refill])
def test_a_fault_at_any_call_changes_no_outcome(scenario: Scenario, fault: ReplicaFault) -> None:
    calls = run_scenario(lambda harness: run_with_fault(harness, scenario, at=-1, fault=fault))
    assert len(moments(calls, fault)) > 3, calls
    for at in moments(calls, fault):
        try:
            run_scenario(lambda harness, at=at: run_with_fault(harness, scenario, at=at, fault=fault))  # type: ignore[misc]
        except BaseException as error:
            moment = "after" if at % 2 else "before"
            error.add_note(f"{fault.__name__} {moment} call {at // 2} of {calls}")
            raise


async def run_with_fault(harness: Harness, scenario: Scenario, *, at: int, fault: ReplicaFault) -> list[str]:
    await harness.template(rescue_window=0.0)
    if scenario is not refill:
        await harness.warm(1)
    first = await harness.replica()
    if scenario is refill:
        await harness.pass_time(10.0)  # so that this one holds the pool's duty
    second = await harness.replica()
    first.interceptor.run_at(at, lambda: fault(harness, first))
    first.interceptor.armed = scenario is not give_back
    await scenario(harness, first, second)
    return first.interceptor.calls


def test_a_replica_that_wakes_up_late_writes_nothing_more() -> None:
    calls = run_scenario(lambda harness: run_with_fault(harness, gather, at=-1, fault=kill))
    commit = calls.index("complete")

    async def late(harness: Harness) -> None:
        await run_with_fault(harness, gather, at=2 * commit, fault=stop_beyond_the_lease)
        (operation,) = await harness.of_kind(Kind.PROVISION)
        names = [event.name for event in await harness.events(operation.id)]
        assert "taken_over" in names
        assert names.count("committed") == names.count("ended") == 1
        assert names[-1] == "ended"

    run_scenario(late)
