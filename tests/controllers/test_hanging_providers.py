"""One provider that never answers, beside one that does: the duties serve the other as if it stood alone."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from muster.controllers.duties import Duties
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
from muster.ports.duties import Duty, Reconciler
from muster.ports.provider import Machine
from tests.controllers.test_launch_closer import open_launch, surprise_until
from tests.harness import Behaviour, Harness, with_harness
from tests.harness.cloud import Cloud, CloudProvider, Hanging


def begin(harness: Harness, every: float, work: Callable[[Ports], Reconciler]) -> None:
    """The duty as it runs, with its lease, in front of both providers."""
    both = {"aaa": Hanging(Cloud(harness.clock)), **harness.ports.providers}
    ports = replace(harness.ports, providers=both)
    duties = Duties(
        ports, "me", (Duty(name="looking", every=every, work=work(ports)),), lease=harness.settings.lease
    )
    harness.keep(asyncio.create_task(duties.run()))


def at_the_hanging_one(harness: Harness, number: int) -> Node:
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
        created_at=harness.now,
        entered_at=harness.now,
        reason=Reason.ORPHAN,
    )


@with_harness
async def test_orphans_of_the_others_are_found(harness: Harness) -> None:
    harness.agents.script(Behaviour(join=False))
    box = harness.cloud.make("inst/op-lost.1", (await harness.store.installation()).id)
    begin(harness, 60.0, lambda ports: Orphans(ports, harness.settings))
    await harness.pass_time(1200.0)
    assert [node.machine_id for node in await harness.nodes(NodeState.TERMINATING)] == [box.id]


@with_harness
async def test_vanished_nodes_of_the_others_are_found(harness: Harness) -> None:
    await harness.template(idle_timeout=5000.0)
    (node,) = await harness.warm(1)
    harness.agents.of(node.id).die()
    harness.cloud.end(node.machine_id)
    begin(harness, 60.0, lambda ports: VanishedMachines(ports, harness.watch_tracker))
    await harness.pass_time(harness.cloud.visibility_window + 1200.0)
    assert (await harness.node(node.id)).reason is Reason.MACHINE_GONE


@with_harness
async def test_launches_at_the_others_are_let_go(harness: Harness) -> None:
    far = await harness.store.apply_template(TemplateSpec(name="far", provider="aaa", max_nodes=9), now=1.0)
    for number in range(3):
        await open_launch(harness, far, number)
    launch = await open_launch(harness, await harness.template(), 3)
    begin(harness, 10.0, LaunchCloser)
    await harness.pass_time(surprise_until(harness, launch) - harness.now + 120.0)
    assert (await harness.store.launch(launch.id)).state is LaunchState.ABANDONED
    assert (await harness.used("ci"), await harness.used("far")) == (0, 3)


@with_harness
async def test_condemned_nodes_of_the_others_are_ended(harness: Harness) -> None:
    await harness.cap(3 * BATCH)
    for number in range(2 * BATCH):
        await harness.store.adopt_stray(at_the_hanging_one(harness, number), now=harness.now)
    await harness.template()
    (node,) = await harness.warm(1)
    await harness.store.apply(nodes.condemn(node, now=harness.now, reason=Reason.OPERATOR))
    begin(harness, 5.0, lambda ports: Reaper(ports, harness.settings))
    await harness.pass_time(120.0)
    assert (await harness.node(node.id)).state is NodeState.TERMINATED


@with_harness
async def test_a_look_that_hangs_for_some_machines_does_not_hide_the_rest_of_their_provider(
    harness: Harness,
) -> None:
    await harness.template(max_nodes=9)
    launches = [
        await open_launch(harness, await harness.template(max_nodes=9), number) for number in range(4)
    ]
    await harness.pass_time(surprise_until(harness, launches[-1]) - harness.now)
    harness.ports = replace(
        harness.ports, providers={"cloud": Stuck(harness.cloud, [launch.token for launch in launches[:3]])}
    )
    duties = Duties(
        harness.ports,
        "me",
        (Duty(name="launches", every=10.0, work=LaunchCloser(harness.ports)),),
        lease=harness.settings.lease,
    )
    harness.keep(asyncio.create_task(duties.run()))
    await harness.pass_time(300.0)
    states = [(await harness.store.launch(launch.id)).state for launch in launches]
    assert states == [LaunchState.CALLING] * 3 + [LaunchState.ABANDONED]


class Stuck(CloudProvider):
    """Never answers about some tokens."""

    def __init__(self, cloud: Cloud, tokens: Sequence[str]) -> None:
        super().__init__(cloud)
        self._tokens = tokens

    async def find(self, token: str) -> Sequence[Machine]:
        if token in self._tokens:
            await asyncio.Event().wait()
        return await super().find(token)
