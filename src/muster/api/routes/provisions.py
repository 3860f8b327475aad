"""Asking for nodes, giving them back, and runs that do both."""

from fastapi import Response

from muster.api.access import Access
from muster.api.context import Context, Here, Key
from muster.api.models.operations import OperationOut
from muster.api.models.requests import ProvisionIn, ReleaseIn, RunIn
from muster.api.routing import ROOT, Route, Table
from muster.domain.operation import Operation


async def provision(ctx: Here, body: ProvisionIn, response: Response, key: Key = None) -> OperationOut:
    """Ask for N ready nodes, all or nothing.

    The answer is an operation; follow it at /operations/{id}/events.
    """
    return accepted(ctx, response, await ctx.plane.desk.provision(body.request(), key=key))


async def release(ctx: Here, body: ReleaseIn, response: Response, key: Key = None) -> OperationOut:
    """Give back what a provision got.

    Releasing an unfinished provision cancels it. A run that had several provisions is refused with their
    list, unless `latest` is set.
    """
    desk = ctx.plane.desk
    if body.operation_id is not None:
        operation = await desk.release(body.request(body.operation_id), key=key)
    else:
        operation = await desk.release_run(body.run or "", latest=body.latest, key=key)
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
        Route("POST", "/provisions", Access.OPERATOR, provision, status=202),
        Route("POST", "/releases", Access.OPERATOR, release, status=202),
        Route("POST", "/runs", Access.OPERATOR, run, status=202),
    ),
)
