"""Operations: what they are, how far they are, why they wait, and how to stop them."""

from collections.abc import Sequence

from starlette.responses import StreamingResponse

from muster.api import streams
from muster.api.access import Access
from muster.api.confinement import own_operation, visible_nodes, visible_operations
from muster.api.context import CallerConfinement, CallerPermit, CallerToken, Context, Ctx, LastEventId
from muster.api.histories import diagnose
from muster.api.router import Raw, Route, Table
from muster.domain import node as domain
from muster.domain.ids import OperationId
from muster.domain.operation import Status
from muster.ports.store import Cursor
from muster.wire.base import Page, convert
from muster.wire.nodes import Node
from muster.wire.operations import PROGRESS_EXAMPLE, Extension, Operation, OperationsQuery, Why


async def listed(ctx: Ctx, asked: OperationsQuery, confinement: CallerConfinement) -> Page[Operation]:
    """List operations, newest first.

    A workflow that signed in by itself gets the provisions of its own run, which it must name.
    """
    page = await ctx.ports.store.operations(
        kind=asked.kind,
        statuses=asked.status or tuple(Status),
        run=asked.run,
        after=Cursor(asked.cursor) if asked.cursor is not None else None,
        limit=asked.limit,
    )
    now, seen = ctx.now(), visible_operations(page, asked.run, confinement)
    items = [Operation.of(each, now=now, steps=await ctx.plane.clusters.steps(each)) for each in seen]
    return Page(items=tuple(items), next=page.next)


async def show(ctx: Ctx, operation_id: str, confinement: CallerConfinement) -> Operation:
    """Show an operation."""
    operation = await own_operation(ctx.ports.store, operation_id, confinement)
    told = await diagnose(ctx.ports.store, operation, now=ctx.now())
    steps = await ctx.plane.clusters.steps(operation)
    return Operation.of(operation, now=ctx.now(), diagnosis=told, steps=steps)


async def why(ctx: Ctx, operation_id: str, confinement: CallerConfinement) -> Why:
    """Say what an operation waits for, since when, until when."""
    await own_operation(ctx.ports.store, operation_id, confinement)
    return convert(Why, await ctx.plane.desk.why(OperationId(operation_id)))


async def cancel(
    ctx: Ctx, caller: CallerToken, operation_id: str, confinement: CallerConfinement
) -> Operation:
    """Ask an operation to stop. Refused once its nodes are handed over: release them instead."""
    await own_operation(ctx.ports.store, operation_id, confinement)
    operation = await ctx.plane.desk.cancel(OperationId(operation_id), actor=caller.actor)
    return Operation.of(operation, now=ctx.now(), steps=await ctx.plane.clusters.steps(operation))


async def extend(ctx: Ctx, caller: CallerToken, operation_id: str, body: Extension) -> Page[Node]:
    """Give the running nodes of a provision more time."""
    nodes = await ctx.plane.operator.extend(OperationId(operation_id), body.by, actor=caller.actor)
    return await _shown(ctx, nodes)


async def nodes(ctx: Ctx, operation_id: str, confinement: CallerConfinement) -> Page[Node]:
    """List the nodes that an operation claimed or made, as they are now: the first few hundred.

    It may have given some of them back since. What it handed over is in its `members`.
    A workflow that signed in by itself doesn't see those that serve another repository by now.
    """
    await own_operation(ctx.ports.store, operation_id, confinement)
    found = visible_nodes(await ctx.plane.desk.nodes(OperationId(operation_id)), operation_id, confinement)
    return await _shown(ctx, found)


async def _shown(ctx: Context, nodes: Sequence[domain.Node]) -> Page[Node]:
    vitals = await ctx.ports.store.vitals([node.id for node in nodes])
    return Page(items=tuple(Node.of(node, vitals.get(node.id)) for node in nodes))


async def events(
    ctx: Ctx,
    permit: CallerPermit,
    operation_id: str,
    confinement: CallerConfinement,
    last_event_id: LastEventId = None,
) -> StreamingResponse:
    """Follow an operation: its progress so far, then live, to its end.

    Each event's data is the progress payload; its id is what Last-Event-ID takes the stream up from.
    """
    seen = streams.version_of(last_event_id)
    # Most callers follow next what they submitted here.
    known = ctx.histories.begun(OperationId(operation_id))
    operation = await own_operation(ctx.ports.store, operation_id, confinement, known=known)
    body = streams.progress(ctx, permit, operation.id, seen=seen)
    return StreamingResponse(body, media_type=streams.MEDIA_TYPE, headers=streams.HEADERS)


_STREAM = Raw(streams.MEDIA_TYPE, f"event: progress\nid: 7\ndata: {PROGRESS_EXAMPLE['operation_id']} …\n\n")

TABLE = Table(
    "operations",
    (
        Route("GET", "/operations", Access.VIEWER, listed, workflows=True),
        Route("GET", "/operations/{operation_id}", Access.VIEWER, show, workflows=True),
        Route("GET", "/operations/{operation_id}/why", Access.VIEWER, why, workflows=True),
        Route("GET", "/operations/{operation_id}/nodes", Access.VIEWER, nodes, workflows=True),
        Route(
            "GET", "/operations/{operation_id}/events", Access.VIEWER, events, gives=_STREAM, workflows=True
        ),
        Route("POST", "/operations/{operation_id}/cancel", Access.OPERATOR, cancel, workflows=True),
        Route("POST", "/operations/{operation_id}/extend", Access.OPERATOR, extend),
    ),
)
