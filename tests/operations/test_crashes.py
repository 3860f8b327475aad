"""The replica that drives an operation is killed, or stopped beyond its lease, before and after every call
that it makes to the store or the provider. Another one takes over, and nobody can tell."""

from collections.abc import Awaitable, Callable

import pytest

from muster.domain.lifecycle import NodeState
from muster.domain.operation import Kind, Operation, Status
from muster.domain.reasons import Reason
from tests.stage import Manner, Replica, Stage, loses_the_reply
from tests.stage.ambush import READS
from tests.stage.stage import play

LONG = 100.0
"""Seconds: more than a lease, and the time that the other one needs to finish."""

Blow = Callable[[Stage, Replica], Awaitable[None]]
Story = Callable[[Stage, Replica, Replica], Awaitable[None]]


async def kill(stage: Stage, replica: Replica) -> None:
    await replica.life.die()


async def stop_beyond_the_lease(stage: Stage, replica: Replica) -> None:
    """Long enough that the other one has finished the work when this one wakes up in the middle of it."""
    replica.life.pause(stage.loop_time + LONG)
    await stage.pass_time(0)


async def insist(first: Replica, second: Replica, *, count: int) -> Operation:
    """A caller that got no answer asks again, elsewhere, with the same key."""
    try:
        return await first.provision(count, key="key-1")
    except ConnectionError:
        return await second.provision(count, key="key-1")


async def everybody_is_awake(replica: Replica, stage: Stage) -> None:
    """A replica that was stopped has gone on, and done what it thought was next."""
    while replica.life.paused:
        await stage.pass_time(1.0)
    await stage.pass_time(1.0)


async def gather(stage: Stage, first: Replica, second: Replica) -> None:
    """One warm node and two cold ones, whose first call is answered in vain."""
    stage.cloud.script(loses_the_reply())
    operation = await stage.succeeded(await insist(first, second, count=3))

    await everybody_is_awake(first, stage)
    assert len(stage.cloud.boxes) == 3
    running = await stage.nodes(NodeState.RUNNING)
    assert {node.id for node in running} == {member.node_id for member in operation.members}
    assert all(node.operation_id == operation.id for node in running)
    assert [len(agent.attached) for agent in stage.agents.by_machine.values()] == [1, 1, 1]


async def fail(stage: Stage, first: Replica, second: Replica) -> None:
    stage.agents.script(Manner(boot=1.0), Manner(boot=2.0, fails="exit 1"))
    operation = await stage.ended(await insist(first, second, count=3))

    assert operation.verdict is not None
    assert operation.verdict.reason is Reason.BOOT_SCRIPT_FAILED
    await everybody_is_awake(first, stage)
    await stage.nothing_is_left(idle=2)
    assert len(stage.cloud.boxes) == 3


async def give_back(stage: Stage, first: Replica, second: Replica) -> None:
    operation = await stage.succeeded(await second.provision(3))
    first.ambush.armed = True
    try:
        release = await first.release(operation.id, key="key-2")
    except ConnectionError:
        release = await second.release(operation.id, key="key-2")
    assert (await stage.ended(release)).status is Status.SUCCEEDED
    await everybody_is_awake(first, stage)
    await stage.nothing_is_left(idle=3)


async def cancel(stage: Stage, first: Replica, second: Replica) -> None:
    stage.agents.script(Manner(boot=200.0), Manner(boot=200.0))
    operation = await insist(first, second, count=3)
    await second.cancel(operation.id)
    assert (await stage.ended(operation)).status is Status.CANCELLED
    await everybody_is_awake(first, stage)
    await stage.nothing_is_left(idle=1)
    assert len(stage.cloud.boxes) <= 3


async def refill(stage: Stage, first: Replica, second: Replica) -> None:
    await stage.template(rescue_window=0.0, min_idle=3)
    await stage.count(3, NodeState.IDLE)
    (operation,) = await stage.of_kind(Kind.REFILL)
    await stage.succeeded(operation)
    await everybody_is_awake(first, stage)
    await stage.nothing_is_left(idle=3)
    assert len(stage.cloud.boxes) == 3


def moments(calls: list[str], blow: Blow) -> list[int]:
    """Where a blow can make a difference. Reads change nothing: a death before one is a death after it, and
    who wakes up before one reads what is true then."""
    changing = [number for number, verb in enumerate(calls) if verb not in READS]
    before = [2 * number for number in changing]
    return before if blow is stop_beyond_the_lease else sorted(before + [moment + 1 for moment in before])


@pytest.mark.parametrize("blow", [kill, stop_beyond_the_lease])
@pytest.mark.parametrize("story", [gather, fail, give_back, cancel, refill])
def test_a_blow_at_any_call_changes_no_outcome(story: Story, blow: Blow) -> None:
    calls = play(lambda stage: tell(stage, story, at=-1, blow=blow))
    assert len(moments(calls, blow)) > 3, calls
    for at in moments(calls, blow):
        try:
            play(lambda stage, at=at: tell(stage, story, at=at, blow=blow))  # type: ignore[misc]
        except BaseException as error:
            moment = "after" if at % 2 else "before"
            error.add_note(f"{blow.__name__} {moment} call {at // 2} of {calls}")
            raise


async def tell(stage: Stage, story: Story, *, at: int, blow: Blow) -> list[str]:
    await stage.template(rescue_window=0.0)
    if story is not refill:
        await stage.warm(1)
    first = await stage.replica()
    if story is refill:
        await stage.pass_time(10.0)  # so that this one holds the pool's duty
    second = await stage.replica()
    first.ambush.lay(at, lambda: blow(stage, first))
    first.ambush.armed = story is not give_back
    await story(stage, first, second)
    return first.ambush.calls


def test_a_replica_that_wakes_up_late_writes_nothing_more() -> None:
    calls = play(lambda stage: tell(stage, gather, at=-1, blow=kill))
    commit = [number for number, verb in enumerate(calls) if verb == "write_operation"][-2]

    async def late(stage: Stage) -> None:
        await tell(stage, gather, at=2 * commit, blow=stop_beyond_the_lease)
        (operation,) = await stage.of_kind(Kind.PROVISION)
        names = [event.name for event in await stage.events(operation.id)]
        assert "taken_over" in names
        assert names.count("committed") == names.count("ended") == 1
        assert names[-1] == "ended"

    play(late)
