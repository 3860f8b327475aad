"""What a template comes to for one cluster: ids and words of Azure, in the core's terms."""

from functools import partial

from muster.domain.cluster import ClusterPlan, Place
from muster.domain.reasons import Reason
from muster.domain.template import TemplateSpec
from muster.integrations.aks.quota import quota_advice
from muster.integrations.aks.spec import AksSpec
from muster.integrations.aks.tables import TEMPLATE

PORTAL = "https://portal.azure.com/#resource"


def plan(name: str, template: TemplateSpec) -> ClusterPlan:
    spec = TEMPLATE.of(template)
    return ClusterPlan(
        place=place(spec.subscription, spec.resource_group, name),
        region=spec.region,
        nodes=sum(pool.count for pool in spec.pools),
        keep_failed=spec.keep_failed,
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
