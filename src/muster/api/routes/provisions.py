"""Asking for nodes, giving them back, and runs that do both."""

from muster.api.access import Access
from muster.api.confinement import confined_request, own_operation, scoped_key
from muster.api.context import CallerConfinement, CallerToken, Ctx, Key
from muster.api.router import ROOT, Route, Table
from muster.wire.operations import Operation, Progress
from muster.wire.provisions import ProvisionRequest, ReleaseRequest, RunRequest


def place(operation: Progress) -> str:
    return f"{ROOT}/operations/{operation.operation_id}"


async def provision(
    ctx: Ctx, caller: CallerToken, body: ProvisionRequest, confinement: CallerConfinement, key: Key = None
) -> Operation:
    """Ask for N ready nodes, all or nothing.

    The answer is an operation; follow it at /operations/{id}/events.
    """
    key = scoped_key(key, confinement)
    request = await confined_request(ctx.ports.store, body.request(), confinement)
    made = await ctx.plane.desk.provision(request, key=key, actor=caller.actor)
    return Operation.of(made, now=ctx.now())


async def release(
    ctx: Ctx, caller: CallerToken, body: ReleaseRequest, confinement: CallerConfinement, key: Key = None
) -> Operation:
    """Give back what a provision got.

    Releasing an unfinished provision cancels it. A run that had several provisions is refused with their
    list, unless `latest` is set.
    """
    desk, key = ctx.plane.desk, scoped_key(key, confinement)
    if body.operation_id is not None:
        request = body.request(body.operation_id)
        if confinement is not None:
            await own_operation(ctx.ports.store, request.operation_id, confinement)
        operation = await desk.release(request, key=key, actor=caller.actor)
    else:
        owner = None if confinement is None else confinement.owner
        operation = await desk.release_run(
            body.run or "", latest=body.latest, owner=owner, key=key, actor=caller.actor
        )
    return Operation.of(operation, now=ctx.now())


async def run(ctx: Ctx, caller: CallerToken, body: RunRequest, key: Key = None) -> Operation:
    """Provision, execute on every node, give back: one operation that outlives its caller."""
    request = body.request()
    for blob in (request.execution.archive, request.execution.stdin):
        if blob is not None:
            await ctx.archives.find(blob, now=ctx.now())
    made = await ctx.plane.desk.run(request, key=key, actor=caller.actor)
    return Operation.of(made, now=ctx.now())


TABLE = Table(
    "provisions",
    (
        Route("POST", "/provisions", Access.OPERATOR, provision, status=202, workflows=True, location=place),
        Route("POST", "/releases", Access.OPERATOR, release, status=202, workflows=True, location=place),
        Route("POST", "/runs", Access.OPERATOR, run, status=202, location=place),
    ),
)
