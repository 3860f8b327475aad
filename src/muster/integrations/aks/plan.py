"""What a template comes to for one cluster: ids and words of Azure, in the core's terms."""

import hashlib
from functools import partial

from muster.domain.cluster import Cluster, ClusterPlan, Place
from muster.domain.reasons import Reason
from muster.domain.template import TemplateSpec
from muster.integrations.aks.quota import quota_advice
from muster.integrations.aks.spec import AksRole, AksSpec, AzureRole
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


def principal_for(role: AksRole, cluster: Cluster) -> str:
    """Networks are changed by the cluster itself; images and blobs are read by its nodes."""
    by_nodes = role.role is not AzureRole.NETWORK_CONTRIBUTOR
    return cluster.kubelet or cluster.principal if by_nodes else cluster.principal


def assignment_name(cluster: Cluster, role: AksRole) -> str:
    """Return a name that is the same for the same cluster, role and scope.

    So granting twice is granting once, and a grant can be found when nothing else is left.
    """
    text = f"{cluster.id}/{role.role}/{role.scope.lower()}"
    digest = hashlib.sha256(text.encode()).hexdigest()
    # A UUID of version 8, which is for values of one's own making.
    return f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-a{digest[17:20]}-{digest[20:32]}"
