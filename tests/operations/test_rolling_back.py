import pytest

from muster.domain.lifecycle import NodeState
from muster.domain.operation import Status
from muster.domain.reasons import Reason
from muster.domain.template import Reuse
from tests.harness import NEVER_BOOTS, Behaviour, Harness, with_harness


@with_harness
async def test_a_created_node_that_fails_fails_the_provision_with_its_reason(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(Behaviour(fails="apt-get: no space left"))
    replica = await harness.replica()

    operation = await harness.ended(await replica.provision(1))

    assert operation.status is Status.FAILED
    assert operation.verdict is not None
    assert operation.verdict.reason is Reason.BOOT_SCRIPT_FAILED
    (failed,) = await harness.events(name="fail")
    assert failed.detail == "apt-get: no space left"
    await harness.nothing_is_left()


@with_harness
async def test_a_rollback_returns_warm_nodes_and_cold_ones_that_are_up_to_the_pool(harness: Harness) -> None:
    await harness.template()
    warm = await harness.warm(2)
    harness.agents.script(Behaviour(boot=5.0), Behaviour(boot=60.0, fails="exit 1"))
    replica = await harness.replica()

    operation = await harness.ended(await replica.provision(4))

    assert operation.status is Status.FAILED
    assert operation.members == ()
    await harness.nothing_is_left(idle=3)
    for node in warm:
        names = await harness.history(node.id)
        assert names[-4:] == ["claim", "attached", "release", "clean"]
        assert (await harness.node(node.id)).last_owner == "default"


@with_harness
async def test_a_rollback_throws_away_what_its_template_would_not_use_again(harness: Harness) -> None:
    await harness.template(reuse=Reuse.NEVER)
    await harness.warm(1)
    harness.agents.script(Behaviour(boot=5.0), Behaviour(boot=60.0, fails="exit 1"))
    replica = await harness.replica()

    operation = await harness.ended(await replica.provision(3))

    assert operation.status is Status.FAILED
    assert await harness.events(name="release") == []
    await harness.nothing_is_left()


@with_harness
async def test_a_node_that_does_not_prove_that_it_is_clean_is_not_pooled(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(Behaviour(detach=None))
    (node,) = await harness.warm(1)
    harness.agents.script(Behaviour(boot=10.0, fails="exit 1"))
    replica = await harness.replica()

    await harness.ended(await replica.provision(2))
    assert (await harness.node(node.id)).state is NodeState.RELEASING

    await harness.nothing_is_left()
    assert (await harness.node(node.id)).reason is Reason.RELEASE_TIMEOUT


@with_harness
async def test_a_boot_that_takes_too_long_fails_the_provision_at_its_limit(harness: Harness) -> None:
    await harness.template(provision_timeout=100.0)
    harness.agents.script(NEVER_BOOTS)
    replica = await harness.replica()
    began = harness.now

    operation = await harness.ended(await replica.provision(1))

    assert operation.verdict is not None
    assert operation.verdict.reason is Reason.BOOT_TIMEOUT
    assert 100.0 <= harness.now - began <= 112.0  # the sweep looks every ten seconds
    await harness.nothing_is_left()


@with_harness
async def test_a_provision_that_outlives_its_deadline_is_rolled_back(harness: Harness) -> None:
    await harness.template()
    (warm,) = await harness.warm(1)
    harness.agents.script(NEVER_BOOTS)
    replica = await harness.replica()
    began = harness.now

    operation = await harness.ended(await replica.provision(2, timeout=50.0))

    assert operation.verdict is not None
    assert operation.verdict.reason is Reason.DEADLINE_EXCEEDED
    assert "1 node to boot" in operation.verdict.message
    assert harness.now - began == pytest.approx(50.0, abs=1.0)
    (cold,) = [node for node in await harness.nodes() if node.id != warm.id]
    assert cold.state in (NodeState.TERMINATING, NodeState.TERMINATED)  # no operation waits for it to detach
    await harness.nothing_is_left(idle=1)
    assert (await harness.node(warm.id)).state is NodeState.IDLE


@with_harness
async def test_a_machine_that_vanishes_while_booting_fails_the_provision(harness: Harness) -> None:
    await harness.template(provision_timeout=3000.0, stall_after=3000.0)
    harness.agents.script(NEVER_BOOTS)
    replica = await harness.replica()
    operation = await replica.provision(1)
    (node,) = await harness.count(1, NodeState.CREATED)
    harness.agents.by_machine[node.machine_id].die()
    harness.cloud.end(node.machine_id)

    operation = await harness.ended(operation)

    assert operation.verdict is not None
    assert operation.verdict.reason is Reason.MACHINE_GONE
    await harness.nothing_is_left()
