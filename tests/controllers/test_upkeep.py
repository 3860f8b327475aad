"""The pruner and the auditor."""

from dataclasses import replace

import pytest

from muster.controllers.upkeep import Auditor, Pruner
from muster.domain import node as nodes
from muster.domain.errors import NotFound
from muster.domain.lifecycle import NodeState
from muster.domain.reasons import Reason
from tests.stage import Stage, staged


@staged
async def test_what_ended_long_ago_is_forgotten_and_nothing_else(stage: Stage) -> None:
    await stage.template()
    replica = await stage.replica()
    old = await stage.succeeded(await replica.provision(1))
    await stage.succeeded(await replica.release(old.id))
    await stage.nothing_is_left(idle=None)
    await stage.count(1, NodeState.TERMINATED)
    kept = await stage.succeeded(await replica.provision(1, run="run-2"))
    replica.life.kill()
    settings = replace(stage.settings, retention=1000.0)
    pruner = Pruner(stage.ports, settings)
    (node,) = await stage.nodes(NodeState.TERMINATED)

    await stage.pass_time(node.entered_at + settings.retention - stage.now)
    await pruner.reconcile()
    assert (await stage.node(node.id)).state is NodeState.TERMINATED
    await stage.pass_time(1.0)
    await pruner.reconcile()

    with pytest.raises(NotFound):
        await stage.node(node.id)
    with pytest.raises(NotFound):
        await stage.operation(old.id)
    assert (await stage.operation(kept.id)).id == kept.id
    assert len(await stage.nodes(NodeState.RUNNING)) == 1


@staged
async def test_a_pass_goes_on_bite_after_bite(stage: Stage) -> None:
    await stage.template()
    for node in await stage.warm(3):
        doomed = await stage.store.apply(nodes.condemn(node, now=stage.now, reason=Reason.OPERATOR))
        await stage.store.apply(nodes.confirm_gone(doomed, now=stage.now))
    settings = replace(stage.settings, retention=10.0)
    await stage.pass_time(20.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("muster.controllers.upkeep.BATCH", 1)
        await Pruner(stage.ports, settings).reconcile()

    assert await stage.nodes(NodeState.TERMINATED) == []


@staged
async def test_a_counter_that_is_wrong_is_set_right_and_said_aloud(stage: Stage) -> None:
    await stage.template()
    await stage.warm(2)
    engine = stage.store._engine
    await engine.write(
        lambda tx: tx.change("UPDATE counters SET used = used + 5 WHERE scope = 'template/ci'")
    )
    assert await stage.used() == 7

    await Auditor(stage.ports).reconcile()

    assert await stage.used() == 2
    (event,) = await stage.events(name="counter_corrected")
    assert (event.entity_id, event.changes) == ("template/ci", {"used": 2})
    assert "7" in event.detail
    assert [record.getMessage() for record in stage.complaints] == ["counter drift"]
    stage.complaints.clear()


@staged
async def test_counters_that_are_right_are_not_spoken_of(stage: Stage) -> None:
    await stage.template()
    await stage.warm(2)
    before = await stage.events()

    await Auditor(stage.ports).reconcile()

    assert await stage.events() == before
