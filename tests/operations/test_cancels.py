import pytest

from muster.domain.errors import NotCancellable
from muster.domain.lifecycle import NodeState
from muster.domain.operation import Kind, Status
from muster.operations.submission import request_cancel
from tests.stage import Manner, Stage, hangs, staged
from tests.stage.ambush import READS
from tests.stage.stage import play


async def provision_and_cancel(stage: Stage, at: int) -> list[str]:
    """One warm and two cold nodes; at one moment of the driver's work somebody cancels."""
    await stage.template()
    await stage.warm(1)
    stage.agents.script(Manner(boot=3.0), Manner(boot=6.0))
    replica = await stage.replica()
    replica.ambush.armed = True
    answers: list[str] = []

    async def cancel() -> None:
        (operation,) = await stage.of_kind(Kind.PROVISION)
        try:
            await request_cancel(stage.store, operation.id, now=stage.now)
            answers.append("cancelled")
        except NotCancellable as refusal:
            answers.append(str(refusal))

    replica.ambush.lay(at, cancel)
    operation = await stage.ended(await replica.provision(3))

    if answers == ["cancelled"]:
        assert operation.status is Status.CANCELLED
        assert not operation.committed
        await stage.nothing_is_left(idle=None)
        for node in await stage.nodes():
            assert (node.state is NodeState.IDLE) is node.up
    elif answers:
        assert operation.status is Status.SUCCEEDED
        assert "release it instead" in answers[0]
    names = [event.name for event in await stage.events(operation.id)]
    assert names.count("committed") + names.count("cancel_requested") == 1
    assert names.count("ended") == 1
    return replica.ambush.calls


def test_a_cancel_at_any_moment_wins_or_loses_against_the_commit_and_leaves_nothing() -> None:
    calls = play(lambda stage: provision_and_cancel(stage, -1))
    last = max(number for number, verb in enumerate(calls) if verb == "write_operation")
    won = calls.index("submit") + 1
    for at in range(2 * won, 2 * last + 1):
        if calls[at // 2] not in READS:  # between two reads nothing moves
            play(lambda stage, at=at: provision_and_cancel(stage, at))  # type: ignore[misc]


@staged
async def test_a_cancel_after_the_commit_says_to_release_instead(stage: Stage) -> None:
    await stage.template()
    replica = await stage.replica()
    operation = await stage.succeeded(await replica.provision(1))

    with pytest.raises(NotCancellable, match="release it instead"):
        await replica.cancel(operation.id)

    assert (await stage.operation(operation.id)).status is Status.SUCCEEDED


@staged
async def test_cancelling_twice_is_cancelling_once(stage: Stage) -> None:
    await stage.template()
    stage.cloud.script(hangs())
    replica = await stage.replica()
    operation = await replica.provision(1)
    await replica.cancel(operation.id)
    await replica.cancel(operation.id)
    await stage.ended(operation)
    await replica.cancel(operation.id)

    assert len(await stage.events(operation.id, "cancel_requested")) == 1
    await stage.nothing_is_left()


@staged
async def test_a_release_is_not_cancelled(stage: Stage) -> None:
    await stage.template()
    stage.agents.script(Manner(detach=60.0))
    replica = await stage.replica()
    operation = await stage.succeeded(await replica.provision(1))
    release = await replica.release(operation.id)

    with pytest.raises(NotCancellable, match="runs to its end"):
        await replica.cancel(release.id)

    await stage.succeeded(release)


@staged
async def test_a_queued_provision_is_cancelled_on_the_spot(stage: Stage) -> None:
    await stage.template(max_nodes=1)
    replica = await stage.replica()
    await stage.succeeded(await replica.provision(1))
    queued = await replica.provision(1, run="run-2", queue_timeout=600.0)
    await stage.pass_time(10.0)
    began = stage.now

    await replica.cancel(queued.id)

    assert (await stage.ended(queued)).status is Status.CANCELLED
    assert stage.now - began < 1.0
