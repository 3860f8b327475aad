"""One provider that never answers, beside one that does: the duties serve the other as if it stood alone."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from muster.controllers.duties import Duties, Duty, Reconciler
from muster.controllers.launch_closer import LaunchCloser
from muster.controllers.orphans import Orphans
from muster.controllers.reaper import BATCH, Reaper
from muster.controllers.vanished_machines import VanishedMachines
from muster.domain import node as nodes
from muster.domain.ids import NodeId
from muster.domain.launch import LaunchState
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.reasons import Reason
from muster.domain.template import TemplateSpec, UsageClass
from muster.ports.bundle import Ports
from muster.ports.provider import Machine
from tests.controllers.test_launch_closer import open_launch, surprise_until
from tests.stage import Manner, Stage, staged
from tests.stage.cloud import Cloud, Hanging, StageProvider


def begin(stage: Stage, every: float, work: Callable[[Ports], Reconciler]) -> None:
    """The duty as it runs, with its lease, in front of both providers."""
    both = {"aaa": Hanging(Cloud(stage.clock)), **stage.ports.providers}
    ports = replace(stage.ports, providers=both)
    duties = Duties(
        ports, "me", (Duty(name="looking", every=every, work=work(ports)),), lease=stage.settings.lease
    )
    stage.keep(asyncio.create_task(duties.run()))


def at_the_hanging_one(stage: Stage, number: int) -> Node:
    return Node(
        id=NodeId(f"far-{number:04d}"),
        template="far",
        revision=1,
        provider="aaa",
        resource_class="large",
        usage_class=UsageClass.ON_DEMAND,
        instance_type="*",
        machine_id=f"far-{number}",
        launch_id=None,
        state=NodeState.TERMINATING,
        created_at=stage.now,
        entered_at=stage.now,
        reason=Reason.ORPHAN,
    )


@staged
async def test_orphans_of_the_others_are_found(stage: Stage) -> None:
    stage.agents.script(Manner(join=False))
    box = stage.cloud.make("inst/op-lost.1", (await stage.store.installation()).id)
    begin(stage, 60.0, lambda ports: Orphans(ports, stage.settings))
    await stage.pass_time(1200.0)
    assert [node.machine_id for node in await stage.nodes(NodeState.TERMINATING)] == [box.id]


@staged
async def test_vanished_nodes_of_the_others_are_found(stage: Stage) -> None:
    await stage.template(idle_timeout=5000.0)
    (node,) = await stage.warm(1)
    stage.agents.of(node.id).die()
    stage.cloud.end(node.machine_id)
    begin(stage, 60.0, lambda ports: VanishedMachines(ports, stage.watch_tracker))
    await stage.pass_time(stage.cloud.visibility_window + 1200.0)
    assert (await stage.node(node.id)).reason is Reason.MACHINE_GONE


@staged
async def test_launches_at_the_others_are_let_go(stage: Stage) -> None:
    far = await stage.store.apply_template(TemplateSpec(name="far", provider="aaa", max_nodes=9), now=1.0)
    for number in range(3):
        await open_launch(stage, far, number)
    launch = await open_launch(stage, await stage.template(), 3)
    begin(stage, 10.0, LaunchCloser)
    await stage.pass_time(surprise_until(stage, launch) - stage.now + 120.0)
    assert (await stage.store.launch(launch.id)).state is LaunchState.ABANDONED
    assert (await stage.used("ci"), await stage.used("far")) == (0, 3)


@staged
async def test_condemned_nodes_of_the_others_are_ended(stage: Stage) -> None:
    await stage.cap(3 * BATCH)
    for number in range(2 * BATCH):
        await stage.store.adopt_stray(at_the_hanging_one(stage, number), now=stage.now)
    await stage.template()
    (node,) = await stage.warm(1)
    await stage.store.apply(nodes.condemn(node, now=stage.now, reason=Reason.OPERATOR))
    begin(stage, 5.0, lambda ports: Reaper(ports, stage.settings))
    await stage.pass_time(120.0)
    assert (await stage.node(node.id)).state is NodeState.TERMINATED


@staged
async def test_a_look_that_hangs_for_some_machines_does_not_hide_the_rest_of_their_provider(
    stage: Stage,
) -> None:
    await stage.template(max_nodes=9)
    launches = [await open_launch(stage, await stage.template(max_nodes=9), number) for number in range(4)]
    await stage.pass_time(surprise_until(stage, launches[-1]) - stage.now)
    stage.ports = replace(
        stage.ports, providers={"cloud": Stuck(stage.cloud, [launch.token for launch in launches[:3]])}
    )
    duties = Duties(
        stage.ports,
        "me",
        (Duty(name="launches", every=10.0, work=LaunchCloser(stage.ports)),),
        lease=stage.settings.lease,
    )
    stage.keep(asyncio.create_task(duties.run()))
    await stage.pass_time(300.0)
    states = [(await stage.store.launch(launch.id)).state for launch in launches]
    assert states == [LaunchState.CALLING] * 3 + [LaunchState.ABANDONED]


class Stuck(StageProvider):
    """Never answers about some tokens."""

    def __init__(self, cloud: Cloud, tokens: Sequence[str]) -> None:
        super().__init__(cloud)
        self._tokens = tokens

    async def find(self, token: str) -> Sequence[Machine]:
        if token in self._tokens:
            await asyncio.Event().wait()
        return await super().find(token)
