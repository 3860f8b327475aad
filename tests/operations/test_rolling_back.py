import pytest

from muster.domain.lifecycle import NodeState
from muster.domain.operation import Status
from muster.domain.reasons import Reason
from muster.domain.template import Reuse
from tests.stage import NEVER_BOOTS, Manner, Stage, staged


@staged
async def test_a_created_node_that_fails_fails_the_provision_with_its_reason(stage: Stage) -> None:
    await stage.template()
    stage.agents.script(Manner(fails="apt-get: no space left"))
    replica = await stage.replica()

    operation = await stage.ended(await replica.provision(1))

    assert operation.status is Status.FAILED
    assert operation.verdict is not None
    assert operation.verdict.reason is Reason.BOOT_SCRIPT_FAILED
    (failed,) = await stage.events(name="fail")
    assert failed.detail == "apt-get: no space left"
    await stage.nothing_is_left()


@staged
async def test_a_rollback_returns_warm_nodes_and_cold_ones_that_are_up_to_the_pool(stage: Stage) -> None:
    await stage.template()
    warm = await stage.warm(2)
    stage.agents.script(Manner(boot=5.0), Manner(boot=60.0, fails="exit 1"))
    replica = await stage.replica()

    operation = await stage.ended(await replica.provision(4))

    assert operation.status is Status.FAILED
    assert operation.members == ()
    await stage.nothing_is_left(idle=3)
    for node in warm:
        names = await stage.history(node.id)
        assert names[-4:] == ["claim", "attached", "release", "clean"]
        assert (await stage.node(node.id)).last_owner == "default"


@staged
async def test_a_rollback_throws_away_what_its_template_would_not_use_again(stage: Stage) -> None:
    await stage.template(reuse=Reuse.NEVER)
    await stage.warm(1)
    stage.agents.script(Manner(boot=5.0), Manner(boot=60.0, fails="exit 1"))
    replica = await stage.replica()

    operation = await stage.ended(await replica.provision(3))

    assert operation.status is Status.FAILED
    assert await stage.events(name="release") == []
    await stage.nothing_is_left()


@staged
async def test_a_node_that_does_not_prove_that_it_is_clean_is_not_pooled(stage: Stage) -> None:
    await stage.template()
    stage.agents.script(Manner(detach=None))
    (node,) = await stage.warm(1)
    stage.agents.script(Manner(boot=10.0, fails="exit 1"))
    replica = await stage.replica()

    await stage.ended(await replica.provision(2))
    assert (await stage.node(node.id)).state is NodeState.RELEASING

    await stage.nothing_is_left()
    assert (await stage.node(node.id)).reason is Reason.RELEASE_TIMEOUT


@staged
async def test_a_boot_that_takes_too_long_fails_the_provision_at_its_limit(stage: Stage) -> None:
    await stage.template(provision_timeout=100.0)
    stage.agents.script(NEVER_BOOTS)
    replica = await stage.replica()
    began = stage.now

    operation = await stage.ended(await replica.provision(1))

    assert operation.verdict is not None
    assert operation.verdict.reason is Reason.BOOT_TIMEOUT
    assert 100.0 <= stage.now - began <= 112.0  # the sweep looks every ten seconds
    await stage.nothing_is_left()


@staged
async def test_a_provision_that_outlives_its_deadline_is_rolled_back(stage: Stage) -> None:
    await stage.template()
    (warm,) = await stage.warm(1)
    stage.agents.script(NEVER_BOOTS)
    replica = await stage.replica()
    began = stage.now

    operation = await stage.ended(await replica.provision(2, timeout=50.0))

    assert operation.verdict is not None
    assert operation.verdict.reason is Reason.DEADLINE_EXCEEDED
    assert "1 node to boot" in operation.verdict.message
    assert stage.now - began == pytest.approx(50.0, abs=1.0)
    (cold,) = [node for node in await stage.nodes() if node.id != warm.id]
    assert cold.state in (NodeState.TERMINATING, NodeState.TERMINATED)  # nobody waits for it to detach
    await stage.nothing_is_left(idle=1)
    assert (await stage.node(warm.id)).state is NodeState.IDLE


@staged
async def test_a_machine_that_vanishes_while_booting_fails_the_provision(stage: Stage) -> None:
    await stage.template(provision_timeout=3000.0, stall_after=3000.0)
    stage.agents.script(NEVER_BOOTS)
    replica = await stage.replica()
    operation = await replica.provision(1)
    (node,) = await stage.count(1, NodeState.CREATED)
    stage.agents.by_machine[node.machine_id].die()
    stage.cloud.end(node.machine_id)

    operation = await stage.ended(operation)

    assert operation.verdict is not None
    assert operation.verdict.reason is Reason.MACHINE_GONE
    await stage.nothing_is_left()
