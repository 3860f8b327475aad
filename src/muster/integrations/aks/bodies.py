"""What is sent to Azure and what is read from it, between the SDK's models and ours.

Owns both directions. Whatever Azure leaves out is left empty: a look shows what there is.
"""

import re
from enum import Enum
from typing import Any

from azure.mgmt.containerservice import models

from muster.integrations.aks.azure import Order
from muster.integrations.aks.error_codes import translated
from muster.integrations.aks.errors import of_detail
from muster.integrations.aks.sight import PoolSight, Sight
from muster.integrations.aks.spec import SYSTEM_IDENTITY, AksPool, AzureRole
from muster.integrations.aks.tables import TEMPLATE

ROLE_IDS = {
    AzureRole.ACR_PULL: "7f951dda-4ed3-4680-a7ca-43fe172d538d",
    AzureRole.STORAGE_BLOB_DATA_CONTRIBUTOR: "ba92f5b4-2d11-453d-a403-e96b0029c9fe",
    AzureRole.NETWORK_CONTRIBUTOR: "4d97b98b-1d4f-4787-a291-c67834d212e7",
}
"""Azure's ids of its built-in roles: the same everywhere."""
_KUBELET = "kubeletidentity"
_PREFIX_MOST = 54


def cluster(order: Order) -> models.ManagedCluster:
    spec = TEMPLATE.of(order.template)
    return models.ManagedCluster(
        location=spec.region,
        tags={**spec.tags, **order.tags},
        identity=_identity(spec.identity),
        properties=models.ManagedClusterProperties(
            dns_prefix=_dns_prefix(order.place.name),
            kubernetes_version=spec.kubernetes_version,
            agent_pool_profiles=[_pool(pool) for pool in spec.pools],
            oidc_issuer_profile=models.ManagedClusterOIDCIssuerProfile(enabled=spec.oidc),
            security_profile=models.ManagedClusterSecurityProfile(
                workload_identity=models.ManagedClusterSecurityProfileWorkloadIdentity(
                    enabled=spec.workload_identity
                )
            ),
        ),
    )


def _dns_prefix(name: str) -> str:
    """Return the cluster's name in letters, digits and hyphens."""
    return re.sub(r"[^A-Za-z0-9-]", "-", name)[:_PREFIX_MOST].strip("-")


def _identity(identity: str) -> models.ManagedClusterIdentity:
    if identity == SYSTEM_IDENTITY:
        return models.ManagedClusterIdentity(type="SystemAssigned")
    return models.ManagedClusterIdentity(
        type="UserAssigned",
        user_assigned_identities={identity: models.ManagedServiceIdentityUserAssignedIdentitiesValue()},
    )


def _pool(pool: AksPool) -> models.ManagedClusterAgentPoolProfile:
    return models.ManagedClusterAgentPoolProfile(
        name=pool.name,
        mode=str(pool.mode),
        type="VirtualMachineScaleSets",
        os_type="Linux",
        vm_size=pool.vm_size,
        count=pool.count,
        node_taints=list(pool.taints) or None,
        node_labels=dict(pool.labels) or None,
        os_disk_size_gb=pool.disk_gb,
        vnet_subnet_id=pool.subnet,
    )


def sight(found: models.ManagedCluster) -> Sight:
    properties: Any = found.properties or models.ManagedClusterProperties()
    power = properties.power_state
    kubelet = (properties.identity_profile or {}).get(_KUBELET)
    problem = of_detail(getattr(properties.status, "provisioning_error", None))
    pools = properties.agent_pool_profiles or []
    return Sight(
        tags=dict(found.tags or {}),
        state=_word(properties.provisioning_state),
        power=_word(power.code if power else None),
        pools=tuple(_pool_sight(pool) for pool in pools),
        principal=_principal(found),
        kubelet=str((kubelet.object_id if kubelet else "") or ""),
        fqdn=str(properties.fqdn or ""),
        kubernetes_version=str(properties.current_kubernetes_version or properties.kubernetes_version or ""),
        problem=None if problem is None else translated(problem, doing="make the cluster"),
    )


def _word(value: Any) -> str:
    """Return Azure's own word: the SDK makes enums of those that it knows."""
    return str(value.value if isinstance(value, Enum) else value or "")


def _pool_sight(pool: models.ManagedClusterAgentPoolProfile) -> PoolSight:
    return PoolSight(
        name=str(pool.name or ""), state=_word(pool.provisioning_state), count=int(pool.count or 0)
    )


def _principal(found: models.ManagedCluster) -> str:
    identity = found.identity
    if identity is None:
        return ""
    assigned = list((identity.user_assigned_identities or {}).values())
    principal = identity.principal_id or (assigned[0].principal_id if assigned else "")
    return str(principal or "")
