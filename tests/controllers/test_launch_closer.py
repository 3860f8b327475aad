"""Open launches of operations that have ended."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from muster.controllers.launch_closer import BATCH, LaunchCloser
from muster.domain import launch as launches
from muster.domain import operation as operations
from muster.domain.ids import OperationId
from muster.domain.launch import Launch, LaunchState
from muster.domain.lifecycle import NodeState
from muster.domain.operation import Kind, Operation, Status, Verdict
from muster.domain.reasons import Reason
from muster.domain.requests import ProvisionRequest
from muster.domain.template import Template, TemplateSpec
from muster.operations.concurrency import UNREACHABLE
from muster.operations.launcher import planned
from muster.ports.provider import Machine
from tests.stage import Manner, Stage, loses_the_reply, loses_the_request, staged

NOBODY = Manner(join=False)


async def forsaken(stage: Stage, *, made: int, lag: float = 0.0) -> Launch:
    """A provision of two that ended without knowing what came of its call; no replica lives."""
    await stage.template()
    stage.cloud.lag = lag
    stage.agents.script(NOBODY, NOBODY)
    lost = loses_the_reply(give=made) if made else loses_the_request()
    stage.cloud.script(lost, *[loses_the_request()] * 20)
    replica = await stage.replica()
    operation = await stage.ended(await replica.provision(2, timeout=5.0))
    replica.life.kill()
    (launch,) = await stage.launches(operation.id)
    assert launch.state is LaunchState.CALLING
    return launch


def surprise_until(stage: Stage, launch: Launch) -> float:
    assert launch.called_at is not None
    return launch.called_at + stage.cloud.call_timeout + stage.cloud.visibility_window


@staged
async def test_all_machines_found_close_the_launch_at_once(stage: Stage) -> None:
    launch = await forsaken(stage, made=2)

    await LaunchCloser(stage.ports).reconcile()

    assert len(await stage.nodes(NodeState.TERMINATING)) == 2
    after = await stage.store.launch(launch.id)
    assert (after.state, after.adopted, after.held) == (LaunchState.ABANDONED, 2, 0)
    assert await stage.used() == 2


@staged
async def test_fewer_machines_are_condemned_and_the_rest_is_waited_for(stage: Stage) -> None:
    launch = await forsaken(stage, made=1, lag=100.0)
    duty = LaunchCloser(stage.ports)

    await duty.reconcile()
    assert await stage.nodes() == []
    await stage.pass_time(100.0)
    await duty.reconcile()
    await duty.reconcile()
    assert len(await stage.nodes(NodeState.TERMINATING)) == 1
    assert (await stage.store.launch(launch.id)).state is LaunchState.CALLING
    assert await stage.used() == 2

    await stage.pass_time(surprise_until(stage, launch) - stage.now - 0.5)
    await duty.reconcile()
    assert await stage.used() == 2
    await stage.pass_time(0.5)
    await duty.reconcile()
    assert (await stage.store.launch(launch.id)).state is LaunchState.ABANDONED
    assert await stage.used() == 1


@staged
async def test_a_launch_of_an_operation_that_goes_on_is_left_to_it(stage: Stage) -> None:
    await stage.template()
    stage.cloud.script(*[loses_the_request()] * 100)
    replica = await stage.replica()
    operation = await replica.provision(2)
    await stage.pass_time(10.0)
    replica.life.kill()
    await stage.pass_time(1000.0)

    await LaunchCloser(stage.ports).reconcile()

    (launch,) = await stage.launches(operation.id)
    assert launch.state is LaunchState.CALLING


@staged
async def test_a_call_made_after_its_launch_was_abandoned_makes_nothing_that_lasts(stage: Stage) -> None:
    """The replica was stopped just before its call, for longer than everybody was ready to wait."""
    await stage.template()
    first = await stage.replica()

    async def stop() -> None:
        first.life.pause(stage.loop_time + 2000.0)
        await stage.pass_time(0)

    first.ambush.before("provider.launch", stop)
    operation = await first.provision(2, timeout=30.0)
    second = await stage.replica()
    stage.cloud.script(*[loses_the_request()] * 4)
    await stage.ended(operation)
    await stage.nothing_is_left()
    (launch,) = await stage.launches(operation.id)
    assert launch.state is LaunchState.ABANDONED
    assert stage.cloud.boxes == {}
    stage.cloud.outcomes.clear()
    stage.agents.script(NOBODY, Manner())

    while first.life.paused:
        await stage.pass_time(10.0)
    await stage.pass_time(5.0)

    silent, joining = stage.cloud.boxes.values()
    assert joining.gone_at is not None
    bound = stage.cloud.visibility_window + 200.0
    await stage.pass_time(bound)
    assert silent.gone_at is not None
    assert await stage.nodes(NodeState.RUNNING, NodeState.IDLE, NodeState.CREATED) == []
    assert second.life.alive


@staged
async def test_a_launch_at_a_provider_that_is_gone_does_not_hold_up_the_others(stage: Stage) -> None:
    launch = await forsaken(stage, made=2)

    await LaunchCloser(replace(stage.ports, providers={})).reconcile()

    assert (await stage.store.launch(launch.id)).state is LaunchState.CALLING


async def open_launch(stage: Stage, template: Template, number: int) -> Launch:
    """A launch that was called for an operation that has ended."""
    operation = Operation(
        id=OperationId(f"op-x{number:04d}"),
        kind=Kind.PROVISION,
        request=ProvisionRequest(template=template.name, count=1, run=f"run-{number}"),
        template=template.name,
        run=f"run-{number}",
        created_at=stage.now,
        updated_at=stage.now,
        deadline_at=stage.now + 10.0,
        deadline_source="request",
        lease_owner="nobody",
        lease_until=stage.now + 60.0,
        epoch=1,
    )
    await stage.store.submit(operation)
    launch = planned(
        operation.id,
        1,
        installation_id=(await stage.store.installation()).id,
        template=template,
        resource_class="large",
        usage_class=template.spec.usage[0],
        instance_types=("*",),
        count=1,
        now=stage.now,
    )
    fence = operation.fence
    launch = await stage.store.reserve(launch, cap=500, total_cap=500, fence=fence)
    launch = await stage.store.write_launch(launch, launches.calling(launch, now=stage.now), fence=fence)
    verdict = Verdict(reason=Reason.DEADLINE_EXCEEDED, message="too late")
    end = operations.ended(operation, Status.FAILED, now=stage.now, progress=None, verdict=verdict)
    await stage.store.write_operation(end)
    return launch


@staged
async def test_a_batch_of_launches_that_cannot_be_settled_hides_no_other(stage: Stage) -> None:
    await stage.cap(500)
    spec = TemplateSpec(name="old", provider="retired-cloud", max_nodes=500)
    old = await stage.store.apply_template(spec, now=stage.now)
    new = await stage.template(max_nodes=500)
    stuck = [await open_launch(stage, old, number) for number in range(BATCH)]
    await stage.pass_time(1.0)
    last = await open_launch(stage, new, BATCH)
    await stage.pass_time(surprise_until(stage, last) - stage.now)

    await LaunchCloser(stage.ports).reconcile()

    assert (await stage.store.launch(last.id)).state is LaunchState.ABANDONED
    assert (await stage.used("ci"), await stage.used("old")) == (0, BATCH)
    assert (await stage.store.launch(stuck[0].id)).state is LaunchState.CALLING


@staged
async def test_a_launch_at_a_provider_that_is_gone_is_given_up_in_the_end(stage: Stage) -> None:
    launch = await forsaken(stage, made=0)
    assert launch.called_at is not None
    duty = LaunchCloser(replace(stage.ports, providers={}))

    await stage.pass_time(launch.called_at + UNREACHABLE - stage.now - 0.5)
    await duty.reconcile()
    assert await stage.used() == 2
    await stage.pass_time(0.5)
    await duty.reconcile()

    after = await stage.store.launch(launch.id)
    assert (after.state, after.reason) == (LaunchState.ABANDONED, Reason.PROVIDER_REFUSED)
    assert await stage.used() == 0


@staged
async def test_a_launch_that_meets_a_bug_costs_the_others_at_its_provider_nothing(stage: Stage) -> None:
    template = await stage.template(max_nodes=500)
    broken, sound = [await open_launch(stage, template, number) for number in range(2)]
    await stage.pass_time(surprise_until(stage, sound) - stage.now)
    provider = stage.ports.providers[sound.provider]
    find = provider.find

    async def strange(token: str) -> Sequence[Machine]:
        if token == broken.token:
            raise ValueError(token)
        return await find(token)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provider, "find", strange)
        await LaunchCloser(stage.ports).reconcile()
    assert (await stage.store.launch(broken.id)).state is LaunchState.CALLING
    assert (await stage.store.launch(sound.id)).state is LaunchState.ABANDONED
    assert [record.getMessage() for record in stage.complaints] == ["cannot do this work"]
    stage.complaints.clear()
