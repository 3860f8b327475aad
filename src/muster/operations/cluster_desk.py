"""Accept creates and deletes of clusters.

While a create runs, a second one of the same name and template returns its operation. Any other create of the
name is refused. Deleting a cluster in the making cancels its create.
"""

from contextlib import suppress
from dataclasses import replace

from muster.domain import deadlines
from muster.domain.cluster import Cluster, ClusterChange, ClusterState, changed
from muster.domain.errors import (
    ClusterExists,
    Conflict,
    InvalidRequest,
    NotCancellable,
    NotFound,
)
from muster.domain.ids import ClusterId
from muster.domain.operation import CLUSTERS, Kind, Operation
from muster.domain.requests import ClusterCreateRequest, ClusterDeleteRequest, Request
from muster.domain.settings import Settings
from muster.domain.steps import Steps
from muster.domain.template import Template
from muster.operations.driver import Driver
from muster.operations.submission import Submitter, request_cancel
from muster.ports.bundle import Ports

TRIES = 5
"""Each lost try means that another writer changed the cluster, which ends soon."""
_INSTEAD = {
    ClusterState.CREATING: "it is being made; watch it with `muster clusters show {name}`",
    ClusterState.READY: "it is ready; delete it first, or choose another name",
    ClusterState.FAILED: "it failed and still exists; delete it first with `muster clusters delete {name}`",
    ClusterState.DELETING: "it is being deleted; wait until it is gone",
}


class ClusterDesk:
    def __init__(self, ports: Ports, settings: Settings, owner: str, driver: Driver) -> None:
        self._ports = ports
        self._store = ports.clusters
        self._settings = settings
        self._submitter = Submitter(ports, settings, owner, driver)

    async def create(
        self, request: ClusterCreateRequest, *, key: str | None = None, actor: str = ""
    ) -> Operation:
        first = await self._submitter.answered(key, Kind.CLUSTER_CREATE, request)
        if first is not None:
            return first
        template = await self._ports.store.template(request.template)
        await self._check(template)
        for _ in range(TRIES):
            there = await self._store.named(request.name)
            if there is not None and there.state is not ClusterState.DELETED:
                return await self._attached(there, request)
            with suppress(ClusterExists):
                return await self._submitted(request, template, key, actor)
        raise Conflict(f"cannot create cluster {request.name}: another request works on that name; try again")

    async def _check(self, template: Template) -> None:
        """All that can be known before anything is called."""
        template.spec.check_in_use()
        if not template.spec.clusters:
            makers = " or ".join(sorted(self._ports.cluster_providers))
            rule = f"it makes nodes, not clusters: its provider must be {makers}"
            raise InvalidRequest("template", template.name, rule)
        provider = self._ports.cluster_providers.get(template.spec.provider)
        if provider is None:
            rule = f"its provider {template.spec.provider} is not configured on this server"
            raise InvalidRequest("template", template.name, rule)
        for part in self._ports.template_parts:
            part.whole(template.spec)
        await provider.check(template.spec)

    async def _attached(self, there: Cluster, request: ClusterCreateRequest) -> Operation:
        if there.state is ClusterState.CREATING and there.template == request.template:
            operation = await self._ports.store.operation(there.operation_id)
            stopped = operation.cancel_requested_at is not None or operation.verdict is not None
            if not operation.ended and not stopped and _same(operation.request, request):
                return operation
        hint = _INSTEAD[there.state].format(name=there.name)
        message = f"cannot create cluster {request.name}: the name is in use, and {hint}"
        raise ClusterExists(there.name, there.state, message)

    async def _submitted(
        self, request: ClusterCreateRequest, template: Template, key: str | None, actor: str
    ) -> Operation:
        deadline = deadlines.resolve_boot(
            timeout=request.timeout, template=template.spec, limits=self._settings.limits
        )
        operation = self._submitter.new(
            Kind.CLUSTER_CREATE, request, deadline, template=template.name, key=key
        )
        cluster = Cluster(
            id=ClusterId(self._ports.ids.new("cl")),
            name=request.name,
            template=template.name,
            revision=template.revision,
            provider=template.spec.provider,
            stage=self._ports.cluster_providers[template.spec.provider].steps.create[0].stage,
            created_at=operation.created_at,
            stage_at=operation.created_at,
            operation_id=operation.id,
        )
        change = ClusterChange(before=None, after=cluster, at=operation.created_at, actor=actor)
        return await self._submitter.submit(operation, self._store.submit(operation, change))

    async def delete(self, name: str, *, key: str | None = None, actor: str = "") -> Operation:
        """By name or id. Raises NotFound; what is being deleted already gives that operation."""
        for _ in range(TRIES):
            cluster = await self.find(name)
            request = ClusterDeleteRequest(cluster_id=cluster.id)
            first = await self._submitter.answered(key, Kind.CLUSTER_DELETE, request)
            if first is not None:
                return first
            with suppress(Conflict, NotCancellable):  # it moved: it may be ready by now, or gone
                return await self._deleted(cluster, request, key, actor)
        raise Conflict(f"cannot delete cluster {name}: it keeps changing; try again")

    async def _deleted(
        self, cluster: Cluster, request: ClusterDeleteRequest, key: str | None, actor: str
    ) -> Operation:
        if cluster.state is ClusterState.DELETED:
            raise NotFound("cluster", cluster.name)
        if cluster.state is ClusterState.DELETING:
            return await self._ports.store.operation(cluster.operation_id)
        if cluster.state is ClusterState.CREATING:
            now = self._ports.clock.now()
            return await request_cancel(self._ports.store, cluster.operation_id, now=now, actor=actor)
        return await self._removed(cluster, request, key, actor)

    async def reclaim(self, cluster: Cluster) -> Operation:
        """Delete once more what is there although its record says deleted. Raises Conflict if that moved, or
        if another cluster has its name now."""
        named = await self._store.named(cluster.name)
        if named is None or named.id != cluster.id:
            raise Conflict(f"cannot delete cluster {cluster.id} again: its name belongs to another one")
        return await self._removed(cluster, ClusterDeleteRequest(cluster_id=cluster.id), None, "")

    async def _removed(
        self, cluster: Cluster, request: ClusterDeleteRequest, key: str | None, actor: str
    ) -> Operation:
        template = await self._ports.store.template(cluster.template, cluster.revision)
        deadline = deadlines.for_operation(
            Kind.CLUSTER_DELETE, template=template.spec, limits=self._settings.limits
        )
        operation = self._submitter.new(
            Kind.CLUSTER_DELETE, request, deadline, template=cluster.template, key=key
        )
        change = changed(
            cluster,
            now=operation.created_at,
            stage=self._ports.cluster_providers[cluster.provider].steps.delete[0].stage,
            state=ClusterState.DELETING,
            operation_id=operation.id,
        )
        change = replace(change, actor=actor)
        return await self._submitter.submit(operation, self._store.submit(operation, change))

    async def find(self, name: str) -> Cluster:
        """By name (the live one, else the newest that had it) or by id."""
        found = await self._store.named(name)
        return found if found is not None else await self._store.cluster(ClusterId(name))

    async def steps(self, operation: Operation) -> Steps | None:
        """Return the steps of work on a cluster, as its provider declares them. None: it is other work."""
        if operation.kind not in CLUSTERS or operation.template is None:
            return None
        provider = (await self._ports.store.template(operation.template)).spec.provider
        steps = self._ports.cluster_providers[provider].steps
        return steps.create if operation.kind is Kind.CLUSTER_CREATE else steps.delete


def _same(first: Request, second: ClusterCreateRequest) -> bool:
    return isinstance(first, ClusterCreateRequest) and first.timeout == second.timeout
