"""Asking for nodes, giving them back, and runs that do both."""

from fastapi import Response

from muster.api import confining
from muster.api.access import Access
from muster.api.context import Context, Held, Here, Key
from muster.api.models.operations import OperationOut
from muster.api.models.requests import ProvisionIn, ReleaseIn, RunIn
from muster.api.routing import ROOT, Route, Table
from muster.domain.operation import Operation


async def provision(
    ctx: Here, body: ProvisionIn, response: Response, confinement: Held, key: Key = None
) -> OperationOut:
    """Ask for N ready nodes, all or nothing.

    The answer is an operation; follow it at /operations/{id}/events.
    """
    key = confining.own_key(key, confinement)
    request = await confining.held(ctx.ports.store, body.request(), confinement)
    return accepted(ctx, response, await ctx.plane.desk.provision(request, key=key))


async def release(
    ctx: Here, body: ReleaseIn, response: Response, confinement: Held, key: Key = None
) -> OperationOut:
    """Give back what a provision got.

    Releasing an unfinished provision cancels it. A run that had several provisions is refused with their
    list, unless `latest` is set.
    """
    desk, key = ctx.plane.desk, confining.own_key(key, confinement)
    if body.operation_id is not None:
        request = body.request(body.operation_id)
        if confinement is not None:
            await confining.own(ctx.ports.store, request.operation_id, confinement)
        operation = await desk.release(request, key=key)
    else:
        owner = None if confinement is None else confinement.repository
        operation = await desk.release_run(body.run or "", latest=body.latest, owner=owner, key=key)
    return accepted(ctx, response, operation)


async def run(ctx: Here, body: RunIn, response: Response, key: Key = None) -> OperationOut:
    """Provision, execute on every node, give back: one operation that outlives its caller."""
    request = body.request()
    if request.execution.archive is not None:
        await ctx.archives.find(request.execution.archive, now=ctx.now())
    return accepted(ctx, response, await ctx.plane.desk.run(request, key=key))


def accepted(ctx: Context, response: Response, operation: Operation) -> OperationOut:
    response.headers["Location"] = f"{ROOT}/operations/{operation.id}"
    return OperationOut.of(operation, now=ctx.now())


TABLE = Table(
    "provisions",
    (
        Route("POST", "/provisions", Access.OPERATOR, provision, status=202, workflows=True),
        Route("POST", "/releases", Access.OPERATOR, release, status=202, workflows=True),
        Route("POST", "/runs", Access.OPERATOR, run, status=202),
    ),
)
