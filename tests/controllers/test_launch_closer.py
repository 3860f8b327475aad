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
from tests.harness import Behaviour, Harness, loses_the_reply, loses_the_request, with_harness

NEVER_JOINS = Behaviour(join=False)


async def forsaken(harness: Harness, *, made: int, lag: float = 0.0) -> Launch:
    """A provision of two that ended without knowing what came of its call; no replica lives."""
    await harness.template()
    harness.cloud.lag = lag
    harness.agents.script(NEVER_JOINS, NEVER_JOINS)
    lost = loses_the_reply(give=made) if made else loses_the_request()
    harness.cloud.script(lost, *[loses_the_request()] * 20)
    replica = await harness.replica()
    operation = await harness.ended(await replica.provision(2, timeout=5.0))
    replica.life.kill()
    (launch,) = await harness.launches(operation.id)
    assert launch.state is LaunchState.CALLING
    return launch


def surprise_until(harness: Harness, launch: Launch) -> float:
    assert launch.called_at is not None
    return launch.called_at + harness.cloud.call_timeout + harness.cloud.visibility_window


@with_harness
async def test_all_machines_found_close_the_launch_at_once(harness: Harness) -> None:
    launch = await forsaken(harness, made=2)

    await LaunchCloser(harness.ports).reconcile()

    assert len(await harness.nodes(NodeState.TERMINATING)) == 2
    after = await harness.store.launch(launch.id)
    assert (after.state, after.adopted, after.held) == (LaunchState.ABANDONED, 2, 0)
    assert await harness.used() == 2


@with_harness
async def test_fewer_machines_are_condemned_and_the_rest_is_waited_for(harness: Harness) -> None:
    launch = await forsaken(harness, made=1, lag=100.0)
    duty = LaunchCloser(harness.ports)

    await duty.reconcile()
    assert await harness.nodes() == []
    await harness.pass_time(100.0)
    await duty.reconcile()
    await duty.reconcile()
    assert len(await harness.nodes(NodeState.TERMINATING)) == 1
    assert (await harness.store.launch(launch.id)).state is LaunchState.CALLING
    assert await harness.used() == 2

    await harness.pass_time(surprise_until(harness, launch) - harness.now - 0.5)
    await duty.reconcile()
    assert await harness.used() == 2
    await harness.pass_time(0.5)
    await duty.reconcile()
    assert (await harness.store.launch(launch.id)).state is LaunchState.ABANDONED
    assert await harness.used() == 1


@with_harness
async def test_a_launch_of_an_operation_that_goes_on_is_left_to_it(harness: Harness) -> None:
    await harness.template()
    harness.cloud.script(*[loses_the_request()] * 100)
    replica = await harness.replica()
    operation = await replica.provision(2)
    await harness.pass_time(10.0)
    replica.life.kill()
    await harness.pass_time(1000.0)

    await LaunchCloser(harness.ports).reconcile()

    (launch,) = await harness.launches(operation.id)
    assert launch.state is LaunchState.CALLING


@with_harness
async def test_a_call_made_after_its_launch_was_abandoned_makes_nothing_that_lasts(harness: Harness) -> None:
    """The replica was stopped just before its call, for longer than everybody was ready to wait."""
    await harness.template()
    first = await harness.replica()

    async def stop() -> None:
        first.life.pause(harness.loop_time + 2000.0)
        await harness.pass_time(0)

    first.interceptor.before("provider.launch", stop)
    operation = await first.provision(2, timeout=30.0)
    second = await harness.replica()
    harness.cloud.script(*[loses_the_request()] * 4)
    await harness.ended(operation)
    await harness.nothing_is_left()
    (launch,) = await harness.launches(operation.id)
    assert launch.state is LaunchState.ABANDONED
    assert harness.cloud.boxes == {}
    harness.cloud.outcomes.clear()
    harness.agents.script(NEVER_JOINS, Behaviour())

    while first.life.paused:
        await harness.pass_time(10.0)
    await harness.pass_time(5.0)

    silent, joining = harness.cloud.boxes.values()
    assert joining.gone_at is not None
    bound = harness.cloud.visibility_window + 200.0
    await harness.pass_time(bound)
    assert silent.gone_at is not None
    assert await harness.nodes(NodeState.RUNNING, NodeState.IDLE, NodeState.CREATED) == []
    assert second.life.alive


@with_harness
async def test_a_launch_at_a_provider_that_is_gone_does_not_hold_up_the_others(harness: Harness) -> None:
    launch = await forsaken(harness, made=2)

    await LaunchCloser(replace(harness.ports, providers={})).reconcile()

    assert (await harness.store.launch(launch.id)).state is LaunchState.CALLING


async def open_launch(harness: Harness, template: Template, number: int) -> Launch:
    """A launch that was called for an operation that has ended."""
    operation = Operation(
        id=OperationId(f"op-x{number:04d}"),
        kind=Kind.PROVISION,
        request=ProvisionRequest(template=template.name, count=1, run=f"run-{number}"),
        template=template.name,
        run=f"run-{number}",
        created_at=harness.now,
        updated_at=harness.now,
        deadline_at=harness.now + 10.0,
        deadline_source="request",
        lease_owner="nobody",
        lease_until=harness.now + 60.0,
        epoch=1,
    )
    await harness.store.submit(operation)
    launch = planned(
        operation.id,
        1,
        installation_id=(await harness.store.installation()).id,
        template=template,
        resource_class="large",
        usage_class=template.spec.usage[0],
        instance_types=("*",),
        count=1,
        now=harness.now,
    )
    fence = operation.fence
    launch = await harness.store.reserve(launch, cap=500, total_cap=500, fence=fence)
    launch = await harness.store.write_launch(launch, launches.calling(launch, now=harness.now), fence=fence)
    verdict = Verdict(reason=Reason.DEADLINE_EXCEEDED, message="too late")
    end = operations.ended(operation, Status.FAILED, now=harness.now, progress=None, verdict=verdict)
    await harness.store.write_operation(end)
    return launch


@with_harness
async def test_a_batch_of_launches_that_cannot_be_settled_hides_no_other(harness: Harness) -> None:
    await harness.cap(500)
    spec = TemplateSpec(name="old", provider="retired-cloud", max_nodes=500)
    old = await harness.store.apply_template(spec, now=harness.now)
    new = await harness.template(max_nodes=500)
    stuck = [await open_launch(harness, old, number) for number in range(BATCH)]
    await harness.pass_time(1.0)
    last = await open_launch(harness, new, BATCH)
    await harness.pass_time(surprise_until(harness, last) - harness.now)

    await LaunchCloser(harness.ports).reconcile()

    assert (await harness.store.launch(last.id)).state is LaunchState.ABANDONED
    assert (await harness.used("ci"), await harness.used("old")) == (0, BATCH)
    assert (await harness.store.launch(stuck[0].id)).state is LaunchState.CALLING


@with_harness
async def test_a_launch_at_a_provider_that_is_gone_is_given_up_in_the_end(harness: Harness) -> None:
    launch = await forsaken(harness, made=0)
    assert launch.called_at is not None
    duty = LaunchCloser(replace(harness.ports, providers={}))

    await harness.pass_time(launch.called_at + UNREACHABLE - harness.now - 0.5)
    await duty.reconcile()
    assert await harness.used() == 2
    await harness.pass_time(0.5)
    await duty.reconcile()

    after = await harness.store.launch(launch.id)
    assert (after.state, after.reason) == (LaunchState.ABANDONED, Reason.PROVIDER_REFUSED)
    assert await harness.used() == 0


@with_harness
async def test_a_launch_that_meets_a_bug_costs_the_others_at_its_provider_nothing(harness: Harness) -> None:
    template = await harness.template(max_nodes=500)
    broken, sound = [await open_launch(harness, template, number) for number in range(2)]
    await harness.pass_time(surprise_until(harness, sound) - harness.now)
    provider = harness.ports.providers[sound.provider]
    find = provider.find

    async def strange(token: str) -> Sequence[Machine]:
        if token == broken.token:
            raise ValueError(token)
        return await find(token)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provider, "find", strange)
        await LaunchCloser(harness.ports).reconcile()
    assert (await harness.store.launch(broken.id)).state is LaunchState.CALLING
    assert (await harness.store.launch(sound.id)).state is LaunchState.ABANDONED
    assert [record.getMessage() for record in harness.complaints] == ["cannot do this work"]
    harness.complaints.clear()
