import pytest

from muster.domain.errors import NotCancellable
from muster.domain.lifecycle import NodeState
from muster.domain.operation import Kind, Status
from muster.operations.submission import request_cancel
from tests.harness import Behaviour, Harness, hangs, with_harness
from tests.harness.harness import run_scenario
from tests.harness.interceptor import READS


async def provision_and_cancel(harness: Harness, at: int, in_steps: bool) -> list[str]:
    """One warm and two cold nodes; at one moment of the driver's work a cancel comes."""
    await harness.template()
    await harness.warm(1)
    harness.agents.script(Behaviour(boot=3.0), Behaviour(boot=6.0))
    replica = await harness.replica()
    replica.interceptor.armed = True
    replica.interceptor.in_steps = in_steps
    answers: list[str] = []

    async def cancel() -> None:
        (operation,) = await harness.of_kind(Kind.PROVISION)
        try:
            await request_cancel(harness.store, operation.id, now=harness.now)
            answers.append("cancelled")
        except NotCancellable as refusal:
            answers.append(str(refusal))

    replica.interceptor.run_at(at, cancel)
    operation = await harness.ended(await replica.provision(3))

    if answers == ["cancelled"]:
        assert operation.status is Status.CANCELLED
        assert not operation.committed
        await harness.nothing_is_left(idle=None)
        for node in await harness.nodes():
            assert (node.state is NodeState.IDLE) is node.up
    elif answers:
        assert operation.status is Status.SUCCEEDED
        assert "release it instead" in answers[0]
    names = [event.name for event in await harness.events(operation.id)]
    assert names.count("committed") + names.count("cancel_requested") == 1
    assert names.count("ended") == 1
    return replica.interceptor.calls


@pytest.mark.parametrize("in_steps", [False, True])
def test_a_cancel_at_any_moment_wins_or_loses_against_the_commit_and_leaves_nothing(in_steps: bool) -> None:
    calls = run_scenario(lambda harness: provision_and_cancel(harness, -1, in_steps))
    last = max(number for number, verb in enumerate(calls) if verb in ("complete", "write_operation"))
    won = calls.index("submit") + 1
    for at in range(2 * won, 2 * last + 1):
        if calls[at // 2] not in READS:  # between two reads nothing moves
            run_scenario(lambda harness, at=at: provision_and_cancel(harness, at, in_steps))  # type: ignore[misc]


@with_harness
async def test_a_cancel_after_the_commit_says_to_release_instead(harness: Harness) -> None:
    await harness.template()
    replica = await harness.replica()
    operation = await harness.succeeded(await replica.provision(1))

    with pytest.raises(NotCancellable, match="release it instead"):
        await replica.cancel(operation.id)

    assert (await harness.operation(operation.id)).status is Status.SUCCEEDED


@with_harness
async def test_cancelling_twice_is_cancelling_once(harness: Harness) -> None:
    await harness.template()
    harness.cloud.script(hangs())
    replica = await harness.replica()
    operation = await replica.provision(1)
    await replica.cancel(operation.id)
    await replica.cancel(operation.id)
    await harness.ended(operation)
    await replica.cancel(operation.id)

    assert len(await harness.events(operation.id, "cancel_requested")) == 1
    await harness.nothing_is_left()


@with_harness
async def test_a_release_is_not_cancelled(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(Behaviour(detach=60.0))
    replica = await harness.replica()
    operation = await harness.succeeded(await replica.provision(1))
    release = await replica.release(operation.id)

    with pytest.raises(NotCancellable, match="runs to its end"):
        await replica.cancel(release.id)

    await harness.succeeded(release)


@with_harness
async def test_a_queued_provision_is_cancelled_on_the_spot(harness: Harness) -> None:
    await harness.template(max_nodes=1)
    replica = await harness.replica()
    await harness.succeeded(await replica.provision(1))
    queued = await replica.provision(1, run="run-2", queue_timeout=600.0)
    await harness.pass_time(10.0)
    began = harness.now

    await replica.cancel(queued.id)

    assert (await harness.ended(queued)).status is Status.CANCELLED
    assert harness.now - began < 1.0
