"""A replica continues after unforeseen errors of its store."""

import pytest

from muster.domain.lifecycle import NodeState
from tests.harness import NEVER_BOOTS, Harness, with_harness


@pytest.mark.parametrize("verb", ["lease", "renew"])
@with_harness
async def test_a_driver_outlives_an_unforeseen_error(harness: Harness, verb: str) -> None:
    await harness.template()
    harness.agents.script(NEVER_BOOTS)
    replica = await harness.replica()
    await replica.provision(1)
    await harness.count(1, NodeState.CREATED)
    replica.interceptor.deny[verb] = RuntimeError("a bug")
    await harness.pass_time(harness.settings.lease)
    replica.interceptor.deny.clear()

    await harness.succeeded(await replica.provision(1))

    assert harness.complaints, "and it was told"
    harness.complaints.clear()
