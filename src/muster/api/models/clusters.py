"""Clusters over the wire: what a template says of them, what is asked for, what there is."""

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import Field

from muster.api.models.base import EXAMPLE_TIME, Asked, In, Out, at, example, maybe_at
from muster.api.models.operations import PAGE_MOST, PROGRESS_EXAMPLE, ProgressOut
from muster.domain.cluster import Cluster, ClusterState, Place
from muster.domain.cluster_spec import ClusterSpec, Pair, PoolMode, PoolSpec, Role, RoleWanted
from muster.domain.operation import Operation
from muster.domain.reasons import Reason
from muster.domain.requests import ClusterCreateRequest

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


class PoolIn(In):
    model_config = example(POOL_EXAMPLE)

    name: str
    mode: Annotated[PoolMode, Field(strict=False)] = PoolMode.USER
    vm_size: str
    count: int = 1
    taints: list[str] = Field(default=[])
    labels: dict[str, str] = Field(default={})
    disk_gb: int | None = None
    subnet: str | None = None

    def spec(self) -> PoolSpec:
        return PoolSpec(
            name=self.name,
            mode=self.mode,
            vm_size=self.vm_size,
            count=self.count,
            taints=tuple(self.taints),
            labels=_pairs(self.labels),
            disk_gb=self.disk_gb,
            subnet=self.subnet,
        )


class RoleIn(In):
    role: Annotated[Role, Field(strict=False)]
    scope: str


class ClusterSpecIn(In):
    """What a template's clusters are made of."""

    model_config = example(SPEC_EXAMPLE)

    subscription: str
    resource_group: str
    region: str
    pools: list[PoolIn]
    kubernetes_version: str | None = None
    identity: str = "system"
    oidc: bool = True
    workload_identity: bool = True
    tags: dict[str, str] = Field(default={})
    roles: list[RoleIn] = Field(default=[])
    keep_failed: bool = False

    def spec(self) -> ClusterSpec:
        return ClusterSpec(
            subscription=self.subscription,
            resource_group=self.resource_group,
            region=self.region,
            pools=tuple(pool.spec() for pool in self.pools),
            kubernetes_version=self.kubernetes_version,
            identity=self.identity,
            oidc=self.oidc,
            workload_identity=self.workload_identity,
            tags=_pairs(self.tags),
            roles=tuple(RoleWanted(role=each.role, scope=each.scope) for each in self.roles),
            keep_failed=self.keep_failed,
        )


class PoolOut(Out):
    name: str
    mode: PoolMode
    vm_size: str
    count: int
    taints: list[str]
    labels: dict[str, str]
    disk_gb: int | None
    subnet: str | None

    @classmethod
    def of(cls, pool: PoolSpec) -> Self:
        return cls(
            name=pool.name,
            mode=pool.mode,
            vm_size=pool.vm_size,
            count=pool.count,
            taints=list(pool.taints),
            labels={label.name: label.value for label in pool.labels},
            disk_gb=pool.disk_gb,
            subnet=pool.subnet,
        )


class RoleOut(Out):
    role: Role
    scope: str


class ClusterSpecOut(Out):
    model_config = example(SPEC_EXAMPLE)

    subscription: str
    resource_group: str
    region: str
    pools: list[PoolOut]
    kubernetes_version: str | None
    identity: str
    oidc: bool
    workload_identity: bool
    tags: dict[str, str]
    roles: list[RoleOut]
    keep_failed: bool

    @classmethod
    def of(cls, spec: ClusterSpec) -> Self:
        return cls(
            subscription=spec.subscription,
            resource_group=spec.resource_group,
            region=spec.region,
            pools=[PoolOut.of(pool) for pool in spec.pools],
            kubernetes_version=spec.kubernetes_version,
            identity=spec.identity,
            oidc=spec.oidc,
            workload_identity=spec.workload_identity,
            tags={tag.name: tag.value for tag in spec.tags},
            roles=[RoleOut(role=each.role, scope=each.scope) for each in spec.roles],
            keep_failed=spec.keep_failed,
        )


class ClusterIn(In):
    """A whole cluster, of a template whose provider makes clusters."""

    model_config = example({"name": "batch-7", "template": "batch"})

    name: str
    template: str
    timeout: float | None = None

    def request(self) -> ClusterCreateRequest:
        return ClusterCreateRequest(name=self.name, template=self.template, timeout=self.timeout)


class ClustersAsked(Asked):
    state: list[ClusterState] = Field(default=[], max_length=len(ClusterState))
    cursor: str | None = None
    limit: int = Field(default=100, ge=1, le=PAGE_MOST)


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


class ClusterOut(Out):
    model_config = example(CLUSTER_EXAMPLE)

    id: str
    name: str
    template: str
    revision: int
    provider: str
    state: ClusterState
    version: int
    created_at: datetime
    ready_at: datetime | None
    operation_id: str
    subscription: str
    resource_group: str
    region: str
    nodes: int
    kubernetes_version: str
    fqdn: str
    portal_url: str
    reason: Reason | None
    detail: str

    @classmethod
    def of(cls, cluster: Cluster, spec: ClusterSpec) -> Self:
        return cls(**_fields(cluster, spec))


class ClusterDetailOut(ClusterOut):
    """A cluster with what it was asked to be, and the operation that works, or last worked, on it."""

    model_config = example({**CLUSTER_EXAMPLE, "spec": SPEC_EXAMPLE, "operation": None})

    spec: ClusterSpecOut
    operation: ProgressOut | None
    """Null: forgotten."""

    @classmethod
    def with_work(
        cls, cluster: Cluster, spec: ClusterSpec, operation: Operation | None, *, now: float
    ) -> Self:
        return cls(
            **_fields(cluster, spec),
            spec=ClusterSpecOut.of(spec),
            operation=ProgressOut.of(operation, now=now) if operation is not None else None,
        )


def _fields(cluster: Cluster, spec: ClusterSpec) -> dict[str, Any]:
    place = Place(subscription=spec.subscription, resource_group=spec.resource_group, name=cluster.name)
    return {
        "id": cluster.id,
        "name": cluster.name,
        "template": cluster.template,
        "revision": cluster.revision,
        "provider": cluster.provider,
        "state": cluster.state,
        "version": cluster.version,
        "created_at": at(cluster.created_at),
        "ready_at": maybe_at(cluster.ready_at),
        "operation_id": cluster.operation_id,
        "subscription": spec.subscription,
        "resource_group": spec.resource_group,
        "region": spec.region,
        "nodes": spec.nodes,
        "kubernetes_version": cluster.kubernetes_version,
        "fqdn": cluster.fqdn,
        "portal_url": place.portal,
        "reason": cluster.reason,
        "detail": cluster.detail,
    }


def _pairs(values: dict[str, str]) -> tuple[Pair, ...]:
    return tuple(Pair(name=name, value=value) for name, value in values.items())
