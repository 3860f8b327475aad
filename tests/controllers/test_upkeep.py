"""The pruner and the auditor."""

from dataclasses import replace

import pytest

from muster.controllers.upkeep import Auditor, Pruner
from muster.domain import node as nodes
from muster.domain.errors import NotFound
from muster.domain.lifecycle import NodeState
from muster.domain.reasons import Reason
from tests.harness import Harness, with_harness


@with_harness
async def test_what_ended_long_ago_is_forgotten_and_nothing_else(harness: Harness) -> None:
    await harness.template()
    replica = await harness.replica()
    old = await harness.succeeded(await replica.provision(1))
    await harness.succeeded(await replica.release(old.id))
    await harness.nothing_is_left(idle=None)
    await harness.count(1, NodeState.TERMINATED)
    kept = await harness.succeeded(await replica.provision(1, run="run-2"))
    replica.life.kill()
    settings = replace(harness.settings, retention=1000.0)
    pruner = Pruner(harness.ports, settings)
    (node,) = await harness.nodes(NodeState.TERMINATED)

    await harness.pass_time(node.entered_at + settings.retention - harness.now)
    await pruner.reconcile()
    assert (await harness.node(node.id)).state is NodeState.TERMINATED
    await harness.pass_time(1.0)
    await pruner.reconcile()

    with pytest.raises(NotFound):
        await harness.node(node.id)
    with pytest.raises(NotFound):
        await harness.operation(old.id)
    assert (await harness.operation(kept.id)).id == kept.id
    assert len(await harness.nodes(NodeState.RUNNING)) == 1


@with_harness
async def test_a_pass_goes_on_bite_after_bite(harness: Harness) -> None:
    await harness.template()
    for node in await harness.warm(3):
        doomed = await harness.store.apply(nodes.condemn(node, now=harness.now, reason=Reason.OPERATOR))
        await harness.store.apply(nodes.confirm_gone(doomed, now=harness.now))
    settings = replace(harness.settings, retention=10.0)
    await harness.pass_time(20.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("muster.controllers.upkeep.BATCH", 1)
        await Pruner(harness.ports, settings).reconcile()

    assert await harness.nodes(NodeState.TERMINATED) == []


@with_harness
async def test_a_counter_that_is_wrong_is_set_right_and_said_aloud(harness: Harness) -> None:
    await harness.template()
    await harness.warm(2)
    engine = harness.store._engine
    await engine.write(
        lambda tx: tx.change("UPDATE counters SET used = used + 5 WHERE scope = 'template/ci'")
    )
    assert await harness.used() == 7

    await Auditor(harness.ports).reconcile()

    assert await harness.used() == 2
    (event,) = await harness.events(name="counter_corrected")
    assert (event.entity_id, event.changes) == ("template/ci", {"used": 2})
    assert "7" in event.detail
    assert [record.getMessage() for record in harness.complaints] == ["counter drift"]
    harness.complaints.clear()


@with_harness
async def test_counters_that_are_right_are_not_spoken_of(harness: Harness) -> None:
    await harness.template()
    await harness.warm(2)
    before = await harness.events()

    await Auditor(harness.ports).reconcile()

    assert await harness.events() == before
