"""Operations that end while it is unknown what came of their call."""

from muster.domain.errors import Refused, Uncertain
from muster.domain.launch import LaunchState
from muster.domain.lifecycle import NodeState
from muster.domain.reasons import Reason
from tests.harness import Harness, hangs, loses_the_reply, loses_the_request, refuses, with_harness

LOST = [loses_the_reply()] * 20


@with_harness
async def test_machines_of_an_unanswered_call_are_found_and_condemned_after_the_deadline(
    harness: Harness,
) -> None:
    await harness.template()
    harness.cloud.lag = 200.0
    harness.cloud.script(*LOST)
    replica = await harness.replica()

    operation = await harness.ended(await replica.provision(2, timeout=40.0))
    assert operation.verdict is not None
    assert operation.verdict.reason is Reason.DEADLINE_EXCEEDED
    (launch,) = await harness.launches(operation.id)
    assert launch.state is LaunchState.CALLING
    assert await harness.used() == 2

    await harness.nothing_is_left()
    found = await harness.nodes()
    assert [node.state for node in found] == [NodeState.TERMINATED] * 2
    assert {node.joined_at for node in found} == {None}
    (launch,) = await harness.launches(operation.id)
    assert (launch.state, launch.adopted) == (LaunchState.ABANDONED, 2)


@with_harness
async def test_a_launch_that_made_nothing_keeps_its_room_until_the_window_has_passed(
    harness: Harness,
) -> None:
    await harness.template(max_nodes=2)
    harness.cloud.script(*[loses_the_request()] * 20)
    replica = await harness.replica()
    operation = await harness.ended(await replica.provision(2, timeout=40.0))
    called_at = harness.cloud.launches[-1][0]
    harness.cloud.outcomes.clear()

    refused = await harness.ended(await replica.provision(1, run="run-2"))
    assert refused.verdict is not None
    assert refused.verdict.reason is Reason.CAP_REACHED

    window = harness.cloud.call_timeout + harness.cloud.visibility_window
    await harness.pass_time(called_at + window - harness.now - 1.0)
    assert await harness.used() == 2
    await harness.nothing_is_left()
    assert harness.now <= called_at + window + 15.0
    (launch,) = await harness.launches(operation.id)
    assert launch.state is LaunchState.ABANDONED
    await harness.succeeded(await replica.provision(2, run="run-3"))


@with_harness
async def test_a_machine_that_shows_up_after_its_launch_was_abandoned_is_turned_away(
    harness: Harness,
) -> None:
    await harness.template()
    harness.cloud.script(*[loses_the_request()] * 20)
    replica = await harness.replica()
    operation = await harness.ended(await replica.provision(1, timeout=10.0))
    await harness.nothing_is_left()
    (launch,) = await harness.launches(operation.id)
    installation = await harness.store.installation()

    late = harness.cloud.make(launch.token, installation.id)
    await harness.pass_time(1.0)

    assert harness.agents.by_machine[late.id].stopped
    assert late.gone_at is not None
    assert await harness.nodes() == []


@with_harness
async def test_while_the_provider_cannot_be_asked_nothing_is_abandoned(harness: Harness) -> None:
    await harness.template()
    harness.cloud.script(*LOST)
    replica = await harness.replica()
    operation = await harness.ended(await replica.provision(2, timeout=40.0))

    harness.cloud.trouble = Uncertain("the region is down")
    await harness.pass_time(2000.0)
    (launch,) = await harness.launches(operation.id)
    assert launch.state is LaunchState.CALLING
    assert await harness.used() == 2

    harness.cloud.trouble = None
    await harness.nothing_is_left()


@with_harness
async def test_a_cancel_during_a_call_that_hangs_ends_soon_and_leaves_nothing(harness: Harness) -> None:
    await harness.template()
    harness.cloud.script(hangs())
    replica = await harness.replica()
    operation = await replica.provision(2)
    await harness.pass_time(3.0)
    await replica.cancel(operation.id)
    asked = harness.now

    operation = await harness.ended(operation)

    assert harness.now - asked <= harness.cloud.call_timeout
    await harness.nothing_is_left()


@with_harness
async def test_a_repeat_that_is_refused_does_not_prove_that_the_first_call_made_nothing(
    harness: Harness,
) -> None:
    """The lost call is carried out all the same, later than anybody waited for it."""
    await harness.template(max_nodes=2)
    harness.cloud.script(loses_the_request(), refuses(Refused("no more processors", Reason.QUOTA)))
    replica = await harness.replica()
    operation = await harness.ended(await replica.provision(2))
    assert operation.verdict is not None
    assert operation.verdict.reason is Reason.QUOTA
    assert await harness.used() == 2
    (launch,) = await harness.launches(operation.id)
    installation = await harness.store.installation()

    for _ in range(2):
        harness.cloud.make(launch.token, installation.id)

    await harness.nothing_is_left()
    assert len(await harness.nodes(NodeState.TERMINATED)) == 2
    assert harness.cloud.most == 2
