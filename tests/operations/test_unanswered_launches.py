"""Operations that end while nobody knows what came of their call."""

from muster.domain.errors import Refused, Uncertain
from muster.domain.launch import LaunchState
from muster.domain.lifecycle import NodeState
from muster.domain.reasons import Reason
from tests.stage import Stage, hangs, loses_the_reply, loses_the_request, refuses, staged

LOST = [loses_the_reply()] * 20


@staged
async def test_machines_of_an_unanswered_call_are_found_and_condemned_after_the_deadline(
    stage: Stage,
) -> None:
    await stage.template()
    stage.cloud.lag = 200.0
    stage.cloud.script(*LOST)
    replica = await stage.replica()

    operation = await stage.ended(await replica.provision(2, timeout=40.0))
    assert operation.verdict is not None
    assert operation.verdict.reason is Reason.DEADLINE_EXCEEDED
    (launch,) = await stage.launches(operation.id)
    assert launch.state is LaunchState.CALLING
    assert await stage.used() == 2

    await stage.nothing_is_left()
    found = await stage.nodes()
    assert [node.state for node in found] == [NodeState.TERMINATED] * 2
    assert {node.joined_at for node in found} == {None}
    (launch,) = await stage.launches(operation.id)
    assert (launch.state, launch.adopted) == (LaunchState.ABANDONED, 2)


@staged
async def test_a_launch_that_made_nothing_keeps_its_room_until_the_window_has_passed(stage: Stage) -> None:
    await stage.template(max_nodes=2)
    stage.cloud.script(*[loses_the_request()] * 20)
    replica = await stage.replica()
    operation = await stage.ended(await replica.provision(2, timeout=40.0))
    called_at = stage.cloud.launches[-1][0]
    stage.cloud.outcomes.clear()

    refused = await stage.ended(await replica.provision(1, run="run-2"))
    assert refused.verdict is not None
    assert refused.verdict.reason is Reason.CAP_REACHED

    window = stage.cloud.call_timeout + stage.cloud.visibility_window
    await stage.pass_time(called_at + window - stage.now - 1.0)
    assert await stage.used() == 2
    await stage.nothing_is_left()
    assert stage.now <= called_at + window + 15.0
    (launch,) = await stage.launches(operation.id)
    assert launch.state is LaunchState.ABANDONED
    await stage.succeeded(await replica.provision(2, run="run-3"))


@staged
async def test_a_machine_that_shows_up_after_its_launch_was_abandoned_is_turned_away(stage: Stage) -> None:
    await stage.template()
    stage.cloud.script(*[loses_the_request()] * 20)
    replica = await stage.replica()
    operation = await stage.ended(await replica.provision(1, timeout=10.0))
    await stage.nothing_is_left()
    (launch,) = await stage.launches(operation.id)
    installation = await stage.store.installation()

    late = stage.cloud.make(launch.token, installation.id)
    await stage.pass_time(1.0)

    assert stage.agents.by_machine[late.id].stopped
    assert late.gone_at is not None
    assert await stage.nodes() == []


@staged
async def test_while_the_provider_cannot_be_asked_nothing_is_abandoned(stage: Stage) -> None:
    await stage.template()
    stage.cloud.script(*LOST)
    replica = await stage.replica()
    operation = await stage.ended(await replica.provision(2, timeout=40.0))

    stage.cloud.trouble = Uncertain("the region is down")
    await stage.pass_time(2000.0)
    (launch,) = await stage.launches(operation.id)
    assert launch.state is LaunchState.CALLING
    assert await stage.used() == 2

    stage.cloud.trouble = None
    await stage.nothing_is_left()


@staged
async def test_a_cancel_during_a_call_that_hangs_ends_soon_and_leaves_nothing(stage: Stage) -> None:
    await stage.template()
    stage.cloud.script(hangs())
    replica = await stage.replica()
    operation = await replica.provision(2)
    await stage.pass_time(3.0)
    await replica.cancel(operation.id)
    asked = stage.now

    operation = await stage.ended(operation)

    assert stage.now - asked <= stage.cloud.call_timeout
    await stage.nothing_is_left()


@staged
async def test_a_repeat_that_is_refused_does_not_prove_that_the_first_call_made_nothing(stage: Stage) -> None:
    """The lost call is carried out all the same, later than anybody waited for it."""
    await stage.template(max_nodes=2)
    stage.cloud.script(loses_the_request(), refuses(Refused("no more processors", Reason.QUOTA)))
    replica = await stage.replica()
    operation = await stage.ended(await replica.provision(2))
    assert operation.verdict is not None
    assert operation.verdict.reason is Reason.QUOTA
    assert await stage.used() == 2
    (launch,) = await stage.launches(operation.id)
    installation = await stage.store.installation()

    for _ in range(2):
        stage.cloud.make(launch.token, installation.id)

    await stage.nothing_is_left()
    assert len(await stage.nodes(NodeState.TERMINATED)) == 2
    assert stage.cloud.most == 2
