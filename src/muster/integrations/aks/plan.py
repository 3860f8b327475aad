"""What a template comes to for one cluster: ids, steps and words of Azure, in the core's terms."""

from functools import partial

from muster.domain.cluster import ClusterPlan, Place, RoleWanted
from muster.domain.reasons import Reason
from muster.domain.steps import CLUSTER_CREATE_STEPS, CLUSTER_DELETE_STEPS, Step
from muster.domain.template import TemplateSpec
from muster.integrations.aks.quota import quota_advice
from muster.integrations.aks.spec import AksSpec, AzureRole
from muster.integrations.aks.tables import TEMPLATE

PORTAL = "https://portal.azure.com/#resource"
CREATE_STEPS = (
    *CLUSTER_CREATE_STEPS[:2],
    Step("arm_create_or_update", "Creating the AKS cluster (5–10 min)", 450.0),
    *CLUSTER_CREATE_STEPS[3:],
)
DELETE_STEPS = (
    *CLUSTER_DELETE_STEPS[:2],
    Step("deleting_cluster", "Deleting the AKS cluster (3–8 min)", 300.0),
    *CLUSTER_DELETE_STEPS[3:],
)


def plan(name: str, template: TemplateSpec) -> ClusterPlan:
    spec = TEMPLATE.of(template)
    return ClusterPlan(
        place=place(spec.subscription, spec.resource_group, name),
        region=spec.region,
        pools=tuple((pool.name, pool.count) for pool in spec.pools),
        roles=tuple(
            RoleWanted(
                role=each.role,
                scope=each.scope,
                # Networks are changed by the cluster itself; images and blobs are read by its nodes.
                by_nodes=each.role is not AzureRole.NETWORK_CONTRIBUTOR,
            )
            for each in spec.roles
        ),
        keep_failed=spec.keep_failed,
        service="AKS",
        manager="ARM",
        create_steps=CREATE_STEPS,
        delete_steps=DELETE_STEPS,
        advice=partial(_advice, spec),
    )


def place(subscription: str, resource_group: str, name: str) -> Place:
    group = f"/subscriptions/{subscription}/resourceGroups/{resource_group}"
    cluster = f"{group}/providers/Microsoft.ContainerService/managedClusters/{name}"
    return Place(
        account=subscription,
        group=resource_group,
        name=name,
        group_id=group,
        cluster_id=cluster,
        link=f"{PORTAL}{cluster}",
    )


def _advice(spec: AksSpec, reason: Reason, message: str) -> str:
    return quota_advice(message, spec) if reason is Reason.QUOTA else ""
