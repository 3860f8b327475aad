"""A replica lives on after errors of its store that nobody foresaw."""

import pytest

from muster.domain.lifecycle import NodeState
from tests.stage import NEVER_BOOTS, Stage, staged


@pytest.mark.parametrize("verb", ["lease", "renew"])
@staged
async def test_a_driver_outlives_an_error_that_nobody_foresaw(stage: Stage, verb: str) -> None:
    await stage.template()
    stage.agents.script(NEVER_BOOTS)
    replica = await stage.replica()
    await replica.provision(1)
    await stage.count(1, NodeState.CREATED)
    replica.ambush.deny[verb] = RuntimeError("a bug")
    await stage.pass_time(stage.settings.lease)
    replica.ambush.deny.clear()

    await stage.succeeded(await replica.provision(1))

    assert stage.complaints, "and it was told"
    stage.complaints.clear()
