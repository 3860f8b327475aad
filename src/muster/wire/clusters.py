"""Clusters: what a template says of them, what is asked for, what there is."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Self

from msgspec import Meta

from muster.domain import cluster as domain
from muster.domain import cluster_spec
from muster.domain.cluster import ClusterState, Place
from muster.domain.cluster_spec import AzureRole, Pair, PoolMode
from muster.domain.operation import Operation
from muster.domain.reasons import Reason
from muster.domain.requests import ClusterCreateRequest
from muster.wire.base import EXAMPLE_TIME, PAGE_MOST, Query, Shape, Time, shaped
from muster.wire.operations import PROGRESS_EXAMPLE, Progress

POOL_EXAMPLE: dict[str, Any] = {
    "name": "systempool",
    "mode": "System",
    "vm_size": "Standard_D4s_v5",
    "count": 1,
    "taints": [],
    "labels": {},
    "disk_gb": None,
    "subnet": None,
}
SPEC_EXAMPLE: dict[str, Any] = {
    "subscription": "8d6f9a52-6c1e-4c0a-9b59-2f0a3a6f1b11",
    "resource_group": "rg-batch",
    "region": "westeurope",
    "kubernetes_version": None,
    "pools": [POOL_EXAMPLE],
    "identity": "system",
    "oidc": True,
    "workload_identity": True,
    "tags": {"team": "genomics"},
    "roles": [],
    "keep_failed": False,
}


class ClusterPool(Shape):
    EXAMPLE = POOL_EXAMPLE

    name: str
    mode: PoolMode = PoolMode.USER
    vm_size: str
    count: int = 1
    taints: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    disk_gb: int | None = None
    subnet: str | None = None

    @classmethod
    def of(cls, pool: cluster_spec.PoolSpec) -> Self:
        return shaped(cls, pool, labels=_named(pool.labels))

    def spec(self) -> cluster_spec.PoolSpec:
        return shaped(cluster_spec.PoolSpec, self, labels=_pairs(self.labels))


class ClusterRole(Shape):
    role: AzureRole
    scope: str


class ClusterSpec(Shape):
    """What a template's clusters are made of."""

    EXAMPLE = SPEC_EXAMPLE

    subscription: str
    resource_group: str
    region: str
    pools: tuple[ClusterPool, ...]
    kubernetes_version: str | None = None
    identity: str = "system"
    oidc: bool = True
    workload_identity: bool = True
    tags: dict[str, str] = {}
    roles: tuple[ClusterRole, ...] = ()
    keep_failed: bool = False

    @classmethod
    def of(cls, spec: cluster_spec.ClusterSpec) -> Self:
        pools = tuple(ClusterPool.of(pool) for pool in spec.pools)
        return shaped(cls, spec, pools=pools, tags=_named(spec.tags))

    def spec(self) -> cluster_spec.ClusterSpec:
        pools = tuple(pool.spec() for pool in self.pools)
        return shaped(cluster_spec.ClusterSpec, self, pools=pools, tags=_pairs(self.tags))


class ClusterRequest(Shape):
    """A whole cluster, of a template whose provider makes clusters."""

    EXAMPLE = {"name": "batch-7", "template": "batch"}

    name: str
    template: str
    timeout: float | None = None

    def request(self) -> ClusterCreateRequest:
        return shaped(ClusterCreateRequest, self)


class ClustersQuery(Query):
    state: Annotated[tuple[ClusterState, ...], Meta(max_length=len(ClusterState))] = ()
    cursor: str | None = None
    limit: Annotated[int, Meta(ge=1, le=PAGE_MOST)] = 100


CLUSTER_EXAMPLE: dict[str, Any] = {
    "id": "cl-1hx2k9q0c7m3t8v5e1",
    "name": "batch-7",
    "template": "batch",
    "revision": 3,
    "provider": "aks",
    "state": "creating",
    "version": 4,
    "created_at": EXAMPLE_TIME,
    "ready_at": None,
    "operation_id": PROGRESS_EXAMPLE["operation_id"],
    "subscription": SPEC_EXAMPLE["subscription"],
    "resource_group": "rg-batch",
    "region": "westeurope",
    "nodes": 11,
    "kubernetes_version": "",
    "fqdn": "",
    "portal_url": "https://portal.azure.com/#resource/subscriptions/…",
    "reason": None,
    "detail": "",
}


class Cluster(Shape):
    EXAMPLE = CLUSTER_EXAMPLE

    id: str
    name: str
    template: str
    revision: int
    provider: str
    state: ClusterState
    version: int
    created_at: Time
    ready_at: Time | None = None
    operation_id: str
    subscription: str
    resource_group: str
    region: str
    nodes: int
    kubernetes_version: str = ""
    fqdn: str = ""
    portal_url: str = ""
    """Empty once it is deleted."""
    reason: Reason | None = None
    detail: str = ""

    @classmethod
    def of(cls, cluster: domain.Cluster, recipe: cluster_spec.ClusterSpec, /, **more: object) -> Self:
        place = Place(
            subscription=recipe.subscription, resource_group=recipe.resource_group, name=cluster.name
        )
        return shaped(
            cls,
            cluster,
            subscription=recipe.subscription,
            resource_group=recipe.resource_group,
            region=recipe.region,
            nodes=recipe.nodes,
            portal_url="" if cluster.state is ClusterState.DELETED else place.portal,
            **more,
        )


class ClusterDetail(Cluster):
    """A cluster with what it was asked to be, and the operation that works, or last worked, on it."""

    EXAMPLE = {**CLUSTER_EXAMPLE, "spec": SPEC_EXAMPLE, "operation": None}

    spec: ClusterSpec
    operation: Progress | None = None
    """Null: forgotten."""

    @classmethod
    def with_work(
        cls,
        cluster: domain.Cluster,
        spec: cluster_spec.ClusterSpec,
        operation: Operation | None,
        *,
        now: float,
    ) -> Self:
        work = Progress.of(operation, now=now) if operation is not None else None
        return cls.of(cluster, spec, spec=ClusterSpec.of(spec), operation=work)


def _pairs(values: Mapping[str, str]) -> tuple[Pair, ...]:
    return tuple(Pair(name=name, value=value) for name, value in values.items())


def _named(pairs: Iterable[Pair]) -> dict[str, str]:
    return {pair.name: pair.value for pair in pairs}
