"""Templates and questions for scenarios with clusters, over the simulated Azure."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from muster.domain.cluster import Cluster
from muster.domain.operation import Operation
from muster.domain.progress import Progress
from muster.domain.requests import ClusterCreateRequest
from muster.domain.template import Template, TemplateSpec
from muster.integrations.aks.plan import plan
from muster.integrations.aks.spec import AksPool, AksRole, AksSpec, AzureRole, PoolMode

if TYPE_CHECKING:
    from tests.harness.harness import Harness, Replica

SUBSCRIPTION = "00000000-0000-4000-8000-000000000001"
SHARED = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/shared/providers"
REGISTRY = f"{SHARED}/Microsoft.ContainerRegistry/registries/images"
SPEC = AksSpec(
    subscription=SUBSCRIPTION,
    resource_group="rg-batch",
    region="westeurope",
    pools=(
        AksPool(name="systempool", mode=PoolMode.SYSTEM, vm_size="Standard_D4s_v5", count=1),
        AksPool(name="blastpool", vm_size="Standard_D4s_v5", count=10),
    ),
    roles=(AksRole(role=AzureRole.ACR_PULL, scope=REGISTRY),),
)

ROLES = (
    *SPEC.roles,
    AksRole(
        role=AzureRole.STORAGE_BLOB_DATA_CONTRIBUTOR, scope=f"{SHARED}/Microsoft.Storage/storageAccounts/x"
    ),
    AksRole(role=AzureRole.NETWORK_CONTRIBUTOR, scope=f"{SHARED}/Microsoft.Network/virtualNetworks/net"),
)
TEMPLATE = TemplateSpec(name="batch", provider="aks", tables={"cluster": SPEC})
PLAN = plan("c1", TEMPLATE)


async def batch(harness: "Harness", *, provision_timeout: float | None = None, **fields: Any) -> Template:
    """The template of these scenarios; `fields` of its cluster."""
    spec = TemplateSpec(
        name="batch",
        provider="aks",
        provision_timeout=provision_timeout,
        tables={"cluster": replace(SPEC, **fields)},
    )
    return await harness.store.apply_template(spec, now=harness.now)


async def create(replica: "Replica", name: str = "c1", *, key: str | None = None, **more: Any) -> Operation:
    request = ClusterCreateRequest(name=name, template="batch", **more)
    return await replica.ask(replica.plane.clusters.create(request, key=key))


async def delete(replica: "Replica", name: str = "c1") -> Operation:
    return await replica.ask(replica.plane.clusters.delete(name))


async def cluster(harness: "Harness", name: str = "c1") -> Cluster:
    found = await harness.store.clusters.named(name)
    assert found is not None
    return found


async def published(harness: "Harness", operation: Operation) -> list[Progress]:
    """Everything that was ever shown of an operation, in order."""
    from muster.domain import serialization

    found: list[Progress] = []
    for event in await harness.events(operation.id):
        shown = event.changes.get("progress")
        if shown is not None:
            assert isinstance(shown, dict)
            found.append(serialization.from_plain(Progress, shown))
    return found


def nothing_of_ours(harness: "Harness") -> None:
    """Nothing is left at Azure of what was made there, and nothing was changed that was there."""
    assert not harness.arm.clusters
    assert not harness.arm.groups
    assert not harness.arm.assignments
    assert not harness.arm.changed
