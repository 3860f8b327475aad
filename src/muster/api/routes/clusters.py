"""Clusters: asked for, listed, shown, deleted. Their work is followed like any other operation's."""

from muster.api.access import Access
from muster.api.context import CallerToken, Context, Ctx, Key
from muster.api.router import Route, Table
from muster.api.routes.provisions import place
from muster.domain import cluster as domain
from muster.domain.cluster import LIVE_CLUSTERS
from muster.domain.template import TemplateSpec
from muster.ports.store import Cursor, if_found
from muster.wire.base import Page
from muster.wire.clusters import Cluster, ClusterDetail, ClusterRequest, ClustersQuery
from muster.wire.operations import Operation


async def create(ctx: Ctx, caller: CallerToken, body: ClusterRequest, key: Key = None) -> Operation:
    """Ask for a whole cluster.

    The answer is an operation; follow it at /operations/{id}/events. The cluster is listed from now on.
    Asking again for what is being made gives the same operation.
    """
    made = await ctx.plane.clusters.create(body.request(), key=key, actor=caller.actor)
    return Operation.of(made, now=ctx.now(), steps=await ctx.plane.clusters.steps(made))


async def listed(ctx: Ctx, asked: ClustersQuery) -> Page[Cluster]:
    """List clusters, newest first; deleted ones only if they are asked for."""
    page = await ctx.ports.clusters.clusters(
        states=asked.state or LIVE_CLUSTERS,
        after=Cursor(asked.cursor) if asked.cursor is not None else None,
        limit=asked.limit,
    )
    items = [Cluster.of(each, (await _planned(ctx, each))[1]) for each in page.items]
    return Page(items=tuple(items), next=page.next)


async def show(ctx: Ctx, name: str) -> ClusterDetail:
    """Show a cluster, by name or id: what it is, and how far the work on it is."""
    cluster = await ctx.plane.clusters.find(name)
    operation = await if_found(ctx.ports.store.operation(cluster.operation_id))
    return ClusterDetail.with_work(cluster, *await _planned(ctx, cluster), operation, now=ctx.now())


async def delete(ctx: Ctx, caller: CallerToken, name: str, key: Key = None) -> Operation:
    """Delete a cluster, by name or id, with the roles that it was granted, and its group if Muster made that.

    One that is still being made is cancelled. The answer is the operation that removes it.
    """
    made = await ctx.plane.clusters.delete(name, key=key, actor=caller.actor)
    return Operation.of(made, now=ctx.now(), steps=await ctx.plane.clusters.steps(made))


async def _planned(ctx: Context, cluster: domain.Cluster) -> tuple[TemplateSpec, domain.ClusterPlan]:
    spec = (await ctx.ports.store.template(cluster.template, cluster.revision)).spec
    return spec, ctx.ports.cluster_providers[cluster.provider].plan(cluster.name, spec)


TABLE = Table(
    "clusters",
    (
        Route("POST", "/clusters", Access.OPERATOR, create, status=202, location=place),
        Route("GET", "/clusters", Access.VIEWER, listed),
        Route("GET", "/clusters/{name}", Access.VIEWER, show),
        Route("POST", "/clusters/{name}/delete", Access.OPERATOR, delete, status=202, location=place),
    ),
)
