"""Creating and deleting clusters, step by step, over the simulated Azure."""

from muster.domain.cluster import ClusterState
from muster.domain.operation import Status
from tests.stage import Stage, staged
from tests.stage.azure import batch, cluster, create, delete, nothing_of_ours, published


@staged
async def test_a_cluster_is_made_in_five_steps_and_deleted_without_a_trace(stage: Stage) -> None:
    await batch(stage)
    replica = await stage.replica()
    operation = await stage.succeeded(await create(replica))

    found = await cluster(stage)
    assert found.state is ClusterState.READY
    assert found.fqdn == "c1.hcp.westeurope.azmk8s.io"
    assert operation.progress is not None
    assert [part.state for part in operation.progress.parts] == ["Succeeded"] * 2
    assert list(stage.arm.assignments) and not stage.arm.changed

    await stage.succeeded(await delete(replica))
    assert (await cluster(stage)).state is ClusterState.DELETED
    nothing_of_ours(stage)


@staged
async def test_every_publish_has_step_and_total_and_never_goes_back(stage: Stage) -> None:
    await batch(stage)
    replica = await stage.replica()
    operation = await stage.succeeded(await create(replica))
    shown = await published(stage, operation)
    assert [each.total_steps for each in shown] == [5] * len(shown)
    steps = [each.step for each in shown]
    assert steps == sorted(steps) and set(steps) == {1, 2, 3, 4, 5}
    assert [each.percent for each in shown] == sorted(each.percent for each in shown)
    assert operation.status is Status.SUCCEEDED
