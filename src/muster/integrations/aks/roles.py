"""The rights that a cluster gets on other resources: whose they are, and what each assignment is called."""

import hashlib

from muster.domain.cluster import Cluster
from muster.integrations.aks.spec import AksRole, AzureRole


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
