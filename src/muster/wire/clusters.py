"""Clusters: what is asked for, what there is."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Self

from msgspec import Meta

from muster.discovery import installed
from muster.domain import cluster as domain
from muster.domain.cluster import ClusterPlan, ClusterState
from muster.domain.operation import Operation
from muster.domain.reasons import Reason
from muster.domain.requests import ClusterCreateRequest
from muster.domain.template import CLUSTER, TemplateSpec
from muster.wire.base import EXAMPLE_TIME, PageQuery, Shape, Time, convert
from muster.wire.operations import PROGRESS_EXAMPLE, Progress
from muster.wire.tables import SHAPES

_TABLE = installed().template_tables.get(CLUSTER)
SPEC_EXAMPLE: Mapping[str, Any] = _TABLE.example if _TABLE is not None else {}
if TYPE_CHECKING:
    ClusterSpec = Any
else:
    ClusterSpec = SHAPES.get(CLUSTER, dict[str, Any])


class ClusterRequest(Shape):
    """A whole cluster, of a template whose provider makes clusters."""

    EXAMPLE = {"name": "batch-7", "template": "batch"}

    name: str
    template: str
    timeout: float | None = None

    def request(self) -> ClusterCreateRequest:
        return convert(ClusterCreateRequest, self)


class ClustersQuery(PageQuery):
    state: Annotated[tuple[ClusterState, ...], Meta(max_length=len(ClusterState))] = ()


CLUSTER_EXAMPLE: dict[str, Any] = {
    "id": "cl-1hx2k9q0c7m3t8v5e1",
    "name": "batch-7",
    "template": "batch",
    "revision": 3,
    "provider": _TABLE.provider if _TABLE is not None else "",
    "state": "creating",
    "version": 4,
    "created_at": EXAMPLE_TIME,
    "ready_at": None,
    "operation_id": PROGRESS_EXAMPLE["operation_id"],
    "account": "8d6f9a52-6c1e-4c0a-9b59-2f0a3a6f1b11",
    "group": "rg-batch",
    "region": "westeurope",
    "nodes": 11,
    "kubernetes_version": "",
    "fqdn": "",
    "console_url": "https://console.example.com/clusters/batch-7",
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
    account: str
    """The account at the provider that owns it and pays for it."""
    group: str
    """The group of resources, or the project, that it is in."""
    region: str
    nodes: int
    kubernetes_version: str = ""
    fqdn: str = ""
    console_url: str = ""
    """Where the provider's own console shows it. Empty once it is deleted."""
    reason: Reason | None = None
    detail: str = ""

    @classmethod
    def of(cls, cluster: domain.Cluster, plan: ClusterPlan, /, **more: object) -> Self:
        return convert(
            cls,
            cluster,
            account=plan.place.account,
            group=plan.place.group,
            region=plan.region,
            nodes=plan.nodes,
            console_url="" if cluster.state is ClusterState.DELETED else plan.place.link,
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
        template: TemplateSpec,
        plan: ClusterPlan,
        operation: Operation | None,
        *,
        now: float,
    ) -> Self:
        work = Progress.of(operation, now=now) if operation is not None else None
        return cls.of(cluster, plan, spec=template.tables[CLUSTER], operation=work)
