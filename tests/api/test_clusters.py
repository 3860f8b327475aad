"""Clusters over the API: what is asked for, followed, shown, refused, and never shown."""

from typing import Any

import msgspec
import pytest

from muster.client import calls
from muster.domain.access import Role
from muster.domain.cluster import ClusterState
from muster.domain.errors import ClusterExists, Forbidden, InvalidRequest, NotFound
from muster.domain.operation import Status
from muster.domain.template import TemplateSpec
from muster.integrations.aks.steps import STEPS
from muster_simulation.arm import SimulatedClusters
from tests.api.site import Site
from tests.harness.azure import SPEC

BATCH = TemplateSpec(name="batch", provider="aks", tables={"cluster": SPEC})
ROOT = "/api/v1/clusters"


async def test_a_cluster_is_asked_for_followed_shown_and_deleted(site: Site) -> None:
    client = site.client()
    applied = await client.send(calls.apply(BATCH))
    cluster = msgspec.to_builtins(applied)["cluster"]
    assert [(pool["name"], pool["count"]) for pool in cluster["pools"]] == [
        ("systempool", 1),
        ("blastpool", 10),
    ]
    operation = await client.send(calls.create_cluster("c1", "batch"))
    (listed,) = (await client.send(calls.clusters())).items
    assert (listed.name, listed.operation_id, listed.nodes) == ("c1", operation.operation_id, 11)

    shown = [each async for each in client.stream(calls.watch(operation.operation_id))]
    steps = [each.step for each in shown if each.step is not None]
    assert steps == sorted(steps)
    assert (shown[-1].status, shown[-1].step, shown[-1].total_steps) == (Status.SUCCEEDED, 5, 5)
    arm = [each for each in shown if each.detail.arm_elapsed_seconds is not None]
    assert arm and all(each.phase == "arm_create_or_update" for each in arm)
    assert {each.detail.cluster for each in shown} == {"c1"}
    for told in (operation, await client.send(calls.operation(operation.operation_id))):
        assert [each.phase for each in told.steps] == [each.phase for each in STEPS.create]
    assert shown[-1].detail.console_url == listed.console_url
    assert listed.console_url.endswith("/rg-batch/providers/Microsoft.ContainerService/managedClusters/c1")

    found = await client.send(calls.cluster("C1"))
    assert (found.state, found.fqdn) == (ClusterState.READY, "c1.hcp.westeurope.azmk8s.io")
    assert found.operation is not None
    assert [part.state for part in found.operation.parts] == ["Succeeded", "Succeeded"]
    assert (await client.send(calls.cluster(found.id))).id == found.id

    gone = await site.ended(client, await client.send(calls.delete_cluster("c1")))
    assert gone.status is Status.SUCCEEDED
    (removed, *_) = (await client.send(calls.operations())).items
    assert [each.label for each in removed.steps] == [each.label for each in STEPS.delete]
    assert (await client.send(calls.clusters())).items == ()
    (past,) = (await client.send(calls.clusters(state=["deleted"]))).items
    assert past.id == found.id


async def test_what_can_not_be_asked_is_refused_with_the_key_and_the_rule(site: Site) -> None:
    client = site.client()
    await client.send(calls.apply(BATCH))
    with pytest.raises(InvalidRequest, match="begin and end with a letter or digit") as refusal:
        await client.send(calls.create_cluster("no good", "batch"))
    assert refusal.value.field == "name"
    with pytest.raises(NotFound):
        await client.send(calls.create_cluster("c1", "unknown"))
    with pytest.raises(NotFound):
        await client.send(calls.cluster("unknown"))
    with pytest.raises(NotFound):
        await client.send(calls.delete_cluster("unknown"))
    for role, call in (
        (Role.VIEWER, calls.create_cluster("c1", "batch")),
        (Role.VIEWER, calls.delete_cluster("c1")),
    ):
        with pytest.raises(Forbidden):
            await site.client(role).send(call)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"pools": []}, "pools"),
        ({"region": "West Europe"}, "region"),
        ({"subscription": "mine"}, "subscription"),
        ({"colour": "blue"}, "colour"),
        ({"pools": [{"name": "p", "vm_size": "Standard_D4s_v5", "mode": "System", "count": 5000}]}, "count"),
        ({"pools": [{"name": "p", "vm_size": "huge", "mode": "System"}]}, "vm_size"),
    ],
)
async def test_a_template_that_azure_would_not_take_is_refused_when_it_is_applied(
    site: Site, change: dict[str, Any], field: str
) -> None:
    call = calls.apply(BATCH)
    body = msgspec.to_builtins(call.body)
    body["cluster"] |= change
    answer = await site.http().put(call.path, json=body)
    assert answer.status_code == 422
    assert field in answer.text


async def test_a_name_that_is_in_use_says_in_what_state_it_is(site: Site) -> None:
    client = site.client()
    await client.send(calls.apply(BATCH))
    operation = await client.send(calls.create_cluster("c1", "batch"))
    assert (await client.send(calls.create_cluster("c1", "batch"))).operation_id == operation.operation_id
    await site.ended(client, operation)
    with pytest.raises(ClusterExists, match="it is ready") as refusal:
        await client.send(calls.create_cluster("c1", "batch"))
    assert (refusal.value.name, refusal.value.state) == ("c1", "ready")


async def test_a_cancel_removes_what_was_made_and_the_token_is_never_shown(site: Site) -> None:
    client, http = site.client(), site.http()
    await client.send(calls.apply(BATCH))
    azure = site.ports.cluster_providers["aks"]
    assert isinstance(azure, SimulatedClusters)
    azure.arm.paces = type(azure.arm.paces)(create=600.0, abort=0.1, delete=0.1, group_delete=0.1)
    operation = await client.send(calls.create_cluster("c1", "batch"))
    cluster = await client.send(calls.cluster("c1"))

    async def token() -> str | None:
        return await site.store.clusters.token(cluster.id)  # type: ignore[arg-type]

    await site.until(token)
    secret = await token()
    assert secret
    await client.send(calls.cancel(operation.operation_id))
    ended = await site.ended(client, operation)
    assert (ended.status, ended.error and ended.error.code) == (Status.CANCELLED, "operation_cancelled")
    assert not azure.arm.clusters
    assert not azure.arm.groups
    for path in (
        ROOT,
        f"{ROOT}/c1",
        f"/api/v1/operations/{operation.operation_id}",
        "/api/v1/events?limit=1000",
    ):
        assert secret not in (await http.get(path)).text
