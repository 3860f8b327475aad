"""Apps among the duties: they are never taken for orphans, vanished or dead; they end by their own rules."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from muster.controllers.orphans import Orphans
from muster.controllers.pool import PoolKeeper
from muster.controllers.reaper import Reaper
from muster.controllers.vanished_machines import VanishedMachines
from muster.domain.app import App
from muster.domain.errors import Forbidden, Lost, Refused, Removed
from muster.domain.ids import LaunchId, NodeId
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.reasons import Reason
from muster.domain.template import EXTERNAL, RESOURCE_CLASSES, Runtime, TemplateSpec, UsageClass
from muster.enrolment.reports import Report
from muster.integrations.external.provider import ExternalProvider
from muster.operations.operator_desk import OperatorDesk
from muster.plane import ControlPlane, Ports
from muster.ports.provider import LaunchRequest
from muster_simulation.life import Life
from tests.harness import Harness, with_harness
from tests.harness.agents import new_enrolment

HOURS = 3600.0
BEAT = 5.0


class Apps:
    """A harness with a template of apps, and a control plane that drives its duties."""

    def __init__(self, harness: Harness, ports: Ports) -> None:
        self.harness = harness
        self.ports = ports
        self.enrolment = new_enrolment(ports, harness.settings)
        self._life = Life("plane")

    @classmethod
    async def on(cls, harness: Harness, **fields: Any) -> "Apps":
        spec = TemplateSpec(name="web", provider=EXTERNAL, runtime=Runtime.SERVICE, **fields)
        await harness.store.apply_template(spec, now=harness.now)
        installation = await harness.store.installation()
        provider = ExternalProvider(
            harness.store,
            harness.clock,
            installation_id=installation.id,
            lost_after=harness.settings.limits.lost_after,
        )
        providers = {**harness.ports.providers, provider.name: provider}
        return cls(harness, replace(harness.ports, providers=providers))

    def drive(self) -> None:
        plane = ControlPlane(self.ports, owner="plane", settings=self.harness.settings)
        self.enrolment = plane.enrolment
        self._life = Life("plane")
        self._running = self._life.spawn(plane.run())

    def stop(self) -> None:
        self._life.kill()

    async def enrol(self, number: int = 1) -> NodeId:
        app = App(key=f"drawn-at-random-{number}", boot_id="boot", name=f"web-{number}", beat_seconds=BEAT)
        return (await self.enrolment.apps.enrol(app, template="web")).node.id

    async def serving(self, number: int = 1) -> Node:
        node_id = await self.enrol(number)
        node = await self.harness.node(node_id)
        await self.enrolment.report(node_id, Report(booted=True, attached=node.assignment_id))
        node = await self.harness.node(node_id)
        assert node.state is NodeState.RUNNING
        return node

    async def beats_for(self, seconds: float, *node_ids: NodeId) -> None:
        for _ in range(int(seconds / BEAT)):
            for node_id in node_ids:
                await self.enrolment.beat(node_id)
            await self.harness.pass_time(BEAT)

    async def terminate(self, node_id: NodeId) -> None:
        await OperatorDesk(self.ports).terminate(node_id)


@with_harness
async def test_an_app_that_beats_is_left_alone_for_as_long_as_it_beats(harness: Harness) -> None:
    apps = await Apps.on(harness)
    apps.drive()
    node = await apps.serving()
    await apps.beats_for(3 * HOURS, node.id)
    assert await harness.node(node.id) == node
    apps.stop()


@with_harness
async def test_no_duty_takes_an_app_for_a_machine(harness: Harness) -> None:
    """Silent and old: what it takes for a machine to be condemned or called an orphan."""
    apps = await Apps.on(harness)
    node = await apps.serving()
    desk = ControlPlane(apps.ports, owner="desk", settings=harness.settings).desk
    duties: list[Callable[[], Awaitable[None]]] = [
        Orphans(apps.ports, harness.settings).reconcile,
        VanishedMachines(apps.ports, harness.watch_tracker).reconcile,
        PoolKeeper(apps.ports, harness.settings, desk).reconcile,
        Reaper(apps.ports, harness.settings).reconcile,
    ]
    for _ in range(4):
        await harness.pass_time(600.0)
        for duty in duties:
            await duty()
    assert await harness.node(node.id) == node


@with_harness
async def test_an_app_that_never_accepts_fails_at_the_boot_deadline_and_may_come_again(
    harness: Harness,
) -> None:
    apps = await Apps.on(harness, provision_timeout=100.0, max_provision_timeout=100.0, rescue_window=0.0)
    apps.drive()
    node_id = await apps.enrol()
    await apps.beats_for(95.0, node_id)
    assert (await harness.node(node_id)).state is NodeState.CREATED
    with pytest.raises(Lost, match="boot_timeout"):
        await apps.beats_for(25.0, node_id)
    assert (await harness.node(node_id)).reason is Reason.BOOT_TIMEOUT
    assert (await apps.serving(2)).id != node_id
    apps.stop()


@with_harness
async def test_an_app_that_accepts_after_it_was_given_up_is_not_pooled_but_may_come_again(
    harness: Harness,
) -> None:
    apps = await Apps.on(harness, provision_timeout=100.0, max_provision_timeout=100.0, rescue_window=500.0)
    apps.drive()
    node_id = await apps.enrol()
    await apps.beats_for(120.0, node_id)
    failed = await harness.node(node_id)
    assert failed.state is NodeState.FAILED
    with pytest.raises(Lost):
        await apps.enrolment.report(node_id, Report(booted=True, attached=failed.assignment_id))
    assert (await harness.node(node_id)).state is NodeState.TERMINATING
    assert (await apps.serving(2)).state is NodeState.RUNNING
    apps.stop()


@with_harness
async def test_a_condemned_app_is_gone_when_it_says_that_it_left(harness: Harness) -> None:
    apps = await Apps.on(harness)
    node = await apps.serving()
    reaper = Reaper(apps.ports, harness.settings)
    await apps.enrolment.beat(node.id)
    await apps.terminate(node.id)
    await reaper.reconcile()
    assert (await harness.node(node.id)).state is NodeState.TERMINATING
    with pytest.raises(Removed):
        await apps.enrolment.beat(node.id)
    await apps.enrolment.report(node.id, Report(left=True))
    await reaper.reconcile()
    gone = await harness.node(node.id)
    assert (gone.state, gone.reason) == (NodeState.TERMINATED, Reason.OPERATOR)
    assert (await harness.store.usage("web")).template == 0


@with_harness
async def test_a_condemned_app_that_says_nothing_is_gone_after_lost_after_and_not_before(
    harness: Harness,
) -> None:
    apps = await Apps.on(harness)
    node = await apps.serving()
    lost_after = harness.settings.limits.lost_after
    await apps.terminate(node.id)
    reaper = Reaper(apps.ports, harness.settings)
    await harness.pass_time(lost_after - 1.0)
    await reaper.reconcile()
    assert (await harness.node(node.id)).state is NodeState.TERMINATING
    await harness.pass_time(1.0)
    await reaper.reconcile()
    assert (await harness.node(node.id)).state is NodeState.TERMINATED


@with_harness
async def test_a_silent_app_is_given_up_and_hears_that_it_may_come_again(harness: Harness) -> None:
    apps = await Apps.on(harness)
    apps.drive()
    node = await apps.serving()
    limits = harness.settings.limits
    await harness.pass_time(limits.service_stale_after + limits.lost_after + 60.0)
    gone = await harness.node(node.id)
    assert (gone.state, gone.reason) == (NodeState.TERMINATED, Reason.HEARTBEAT_LOST)
    with pytest.raises(Lost, match="enrol again with a new key"):
        await apps.enrolment.beat(node.id)
    with pytest.raises(Lost):
        await apps.enrol(1)
    assert (await apps.serving(2)).state is NodeState.RUNNING
    apps.stop()


@with_harness
async def test_leaving_ends_an_app_in_whatever_state(harness: Harness) -> None:
    apps = await Apps.on(harness)
    starting, running = await apps.enrol(1), (await apps.serving(2)).id
    reaper = Reaper(apps.ports, harness.settings)
    for node_id in (starting, running):
        for _ in range(2):
            await apps.enrolment.report(node_id, Report(left=True))
        await reaper.reconcile()
        gone = await harness.node(node_id)
        assert (gone.state, gone.reason) == (NodeState.TERMINATED, Reason.LEFT)


@with_harness
async def test_the_provider_of_apps_makes_nothing(harness: Harness) -> None:
    apps = await Apps.on(harness)
    provider = apps.ports.providers[EXTERNAL]
    template = await harness.store.template("web")
    request = LaunchRequest(
        token="t",
        launch_id=LaunchId("l"),
        installation_id="i",
        template=template.spec,
        revision=1,
        resource_class=RESOURCE_CLASSES["large"],
        usage_class=UsageClass.ON_DEMAND,
        instance_types=("*",),
        count=1,
    )
    with pytest.raises(Refused, match="enrol themselves"):
        await provider.launch(request)
    assert await provider.find("t") == ()
    assert await provider.describe(["app-none"]) == {}
    assert await provider.console("app-none", lines=10) is None
    node = await apps.serving()
    assert [machine.id async for machine in provider.list()] == [node.machine_id]


@with_harness
async def test_a_token_of_an_app_speaks_for_it_and_dies_with_the_next(harness: Harness) -> None:
    apps = await Apps.on(harness)
    app = App(key="drawn-at-random-1", boot_id="boot", name="web-1", beat_seconds=BEAT)
    first = await apps.enrolment.apps.enrol(app, template="web")
    assert await apps.enrolment.identify(first.token) == first.node.id
    second = await apps.enrolment.apps.enrol(app, template="web")
    assert second.node.id == first.node.id
    with pytest.raises(Forbidden):
        await apps.enrolment.identify(first.token)
