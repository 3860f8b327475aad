"""Clusters: asked for, listed, shown, deleted. Their work is followed like any other operation's."""

from typing import Annotated

from fastapi import Query, Response

from muster.api.access import Access
from muster.api.context import Context, Here, Key
from muster.api.models.base import PageOut
from muster.api.models.clusters import ClusterDetailOut, ClusterIn, ClusterOut, ClustersAsked
from muster.api.models.operations import OperationOut
from muster.api.routes.provisions import accepted
from muster.api.routing import Route, Table
from muster.domain.cluster import LIVE, Cluster
from muster.domain.cluster_spec import ClusterSpec
from muster.domain.errors import NotFound
from muster.ports.store import Cursor


class ClustersOut(PageOut[ClusterOut]):
    pass


async def create(ctx: Here, body: ClusterIn, response: Response, key: Key = None) -> OperationOut:
    """Ask for a whole cluster.

    The answer is an operation; follow it at /operations/{id}/events. The cluster is listed from now on.
    Asking again for what is being made gives the same operation.
    """
    return accepted(ctx, response, await ctx.plane.clusters.create(body.request(), key=key))


async def listed(ctx: Here, asked: Annotated[ClustersAsked, Query()]) -> ClustersOut:
    """List clusters, newest first; deleted ones only if they are asked for."""
    page = await ctx.ports.clusters.clusters(
        states=tuple(asked.state) or LIVE,
        after=Cursor(asked.cursor) if asked.cursor is not None else None,
        limit=asked.limit,
    )
    items = [ClusterOut.of(each, await _spec(ctx, each)) for each in page.items]
    return ClustersOut(items=items, next=page.next)


async def show(ctx: Here, name: str) -> ClusterDetailOut:
    """Show a cluster, by name or id: what it is, and how far the work on it is."""
    cluster = await ctx.plane.clusters.find(name)
    try:
        operation = await ctx.ports.store.operation(cluster.operation_id)
    except NotFound:
        operation = None
    return ClusterDetailOut.with_work(cluster, await _spec(ctx, cluster), operation, now=ctx.now())


async def delete(ctx: Here, name: str, response: Response, key: Key = None) -> OperationOut:
    """Delete a cluster, by name or id, with the roles that it was granted, and its group if Muster made that.

    One that is still being made is cancelled. The answer is the operation that removes it.
    """
    return accepted(ctx, response, await ctx.plane.clusters.delete(name, key=key))


async def _spec(ctx: Context, cluster: Cluster) -> ClusterSpec:
    template = await ctx.ports.store.template(cluster.template, cluster.revision)
    spec = template.spec.cluster
    assert spec is not None  # noqa: S101 — a cluster is made only of a template that has one
    return spec


TABLE = Table(
    "clusters",
    (
        Route("POST", "/clusters", Access.OPERATOR, create, status=202),
        Route("GET", "/clusters", Access.VIEWER, listed),
        Route("GET", "/clusters/{name}", Access.VIEWER, show),
        Route("POST", "/clusters/{name}/delete", Access.OPERATOR, delete, status=202),
    ),
)
