"""Commands: executing on a run's nodes, reading what came out, stopping."""

import hashlib
from collections.abc import AsyncIterator, Sequence

from starlette.responses import FileResponse, Response, StreamingResponse

from muster.api.access import Access, Permit
from muster.api.context import SHUTDOWN, CallerPermit, CallerToken, Context, Ctx, Key, RawRequest
from muster.api.router import Raw, Route, Table
from muster.domain import checks
from muster.domain import command as domain
from muster.domain.errors import Ambiguous, IdempotencyMismatch, InvalidRequest, NotFound
from muster.domain.ids import CommandId, NodeId, OperationId
from muster.domain.lifecycle import NodeState
from muster.domain.operation import Kind, Status
from muster.ports.store import Cursor
from muster.ports.wakeups import command_topic
from muster.wire.base import Page, at
from muster.wire.commands import Blob, Command, CommandsQuery, CommandsRequest, OutputQuery

PIECE = 256 * 1024
RUN_LIST = 20
LOOK_EVERY = 2.0
"""Seconds between two reads. Output of a node that talks to another replica causes no wake-up here."""


async def execute(ctx: Ctx, caller: CallerToken, body: CommandsRequest, key: Key = None) -> Page[Command]:
    """Execute on the nodes of a provision."""
    execution = body.execution.execution()
    if execution.terminal is not None:
        ctx.settings.settings.shells.check(caller.role)
        ctx.terminals.check_room()
    for blob in (execution.archive, execution.stdin):
        if blob is not None:
            await ctx.archives.find(blob, now=ctx.now())
    if body.node_id is not None:
        looked = await ctx.plane.command_desk.look_inside(
            NodeId(body.node_id), execution, key=key, actor=caller.actor
        )
        if looked is not None:
            return Page(items=(Command.of(looked),))
    operation_id, indexes = await _target(ctx, body)
    batch = None if key is None else _batch(operation_id, key)
    commands = await ctx.plane.command_desk.execute(
        operation_id, execution, indexes=indexes, key=batch, actor=caller.actor
    )
    for command in commands:
        if key is not None and command.execution != execution:
            raise IdempotencyMismatch(key, command.id)
    return Page(items=tuple(Command.of(command) for command in commands))


async def _target(ctx: Context, asked: CommandsRequest) -> tuple[OperationId, Sequence[int]]:
    """Return the provision that is meant, and which of its nodes."""
    if asked.node_id is not None:
        return await ctx.plane.command_desk.place(NodeId(asked.node_id))
    return OperationId(asked.operation_id or "") or await _live(ctx, asked.run or ""), asked.indexes


async def _live(ctx: Context, run: str) -> OperationId:
    """Return the one provision of a run that has running nodes."""
    found = await ctx.ports.store.operations(
        kind=Kind.PROVISION, statuses=(Status.SUCCEEDED,), run=run, after=None, limit=RUN_LIST
    )
    live = []
    for operation in found.items:
        view = await ctx.ports.store.view(operation.id)
        if any(node.state is NodeState.RUNNING for node in view.nodes):
            live.append(operation.id)
    if not live:
        raise NotFound("a provision with running nodes of run", run)
    if len(live) > 1:
        raise Ambiguous(run, tuple(live))
    return live[0]


def _batch(operation_id: str, key: str) -> str:
    """Return the prefix of new command ids. They become paths on nodes, so a caller's key is hashed."""
    checks.text("idempotency_key", key, longest=checks.KEY_MAX)
    digest = hashlib.sha256(f"{operation_id}\n{key}".encode()).hexdigest()
    return f"cmd-{digest[:24]}"


async def listed(ctx: Ctx, asked: CommandsQuery) -> Page[Command]:
    """List commands: of one provision oldest first, otherwise newest first."""
    if asked.operation_id is not None:
        commands = await ctx.ports.commands.of_operation(OperationId(asked.operation_id))
        return Page(items=await _shown(ctx, commands), next=None)
    after = Cursor(asked.cursor) if asked.cursor is not None else None
    page = await ctx.ports.commands.commands(run=asked.run, after=after, limit=asked.limit)
    return Page(items=await _shown(ctx, page.items), next=page.next)


async def _shown(ctx: Context, commands: Sequence[domain.Command]) -> tuple[Command, ...]:
    silences = await ctx.plane.silent_nodes.under(commands)
    return tuple(Command.of(command, silences.get(command.node_id)) for command in commands)


async def show(ctx: Ctx, command_id: str) -> Command:
    """Show a command."""
    (shown,) = await _shown(ctx, [await ctx.ports.commands.command(CommandId(command_id))])
    return shown


async def cancel(ctx: Ctx, caller: CallerToken, command_id: str) -> Command:
    """Ask for a command's end: its whole tree of processes is killed."""
    return Command.of(await ctx.plane.command_desk.cancel(CommandId(command_id), actor=caller.actor))


async def output(ctx: Ctx, permit: CallerPermit, command_id: str, asked: OutputQuery) -> Response:
    """Read output from an offset on, as raw bytes.

    With `follow`, more is sent as it comes, until the command has ended. Count the bytes: after a break, ask
    again from there.
    """
    command = await ctx.ports.commands.command(CommandId(command_id))
    headers = {"Muster-Command-State": command.state.value}
    if asked.follow:
        body = _followed(ctx, permit, command.id, asked.offset)
        return StreamingResponse(body, media_type="application/octet-stream", headers=headers)
    data = await ctx.ports.commands.output(command.id, offset=asked.offset, limit=PIECE)
    return Response(data, media_type="application/octet-stream", headers=headers)


async def _followed(ctx: Context, permit: Permit, command_id: CommandId, offset: int) -> AsyncIterator[bytes]:
    listener = ctx.ports.wakeups.listen((command_topic(command_id), SHUTDOWN))
    try:
        while not ctx.shutdown.begun and await permit.holds():
            # First whether it has ended, then what there is: an end means that all output is kept.
            ended = (await ctx.ports.commands.command(command_id)).ended
            data = await ctx.ports.commands.output(command_id, offset=offset, limit=PIECE)
            if data:
                offset += len(data)
                yield data
            elif ended:
                return
            else:
                await listener.wait(LOOK_EVERY)
    finally:
        listener.close()


async def artifact(ctx: Ctx, command_id: str) -> FileResponse:
    """Fetch what a command brought back, as a gzipped tar archive."""
    command = await ctx.ports.commands.command(CommandId(command_id))
    path = await ctx.results.find(command.id, now=ctx.now())
    return FileResponse(path, media_type="application/gzip", filename=f"{command.id}.tgz")


async def terminal(ctx: Ctx, command_id: str) -> Response:
    """Connect to the terminal of a command, as a WebSocket. The words are in docs/shell.md.

    Answered by `terminal_sockets`, in front of all this; here for the documentation.
    """
    await ctx.ports.commands.command(CommandId(command_id))
    raise InvalidRequest("Upgrade", None, "must be websocket: use `muster shell`, or the page of the node")


_BYTES = Raw("application/octet-stream", "PASS: 12 tests\n")
_ARCHIVE = Raw("application/gzip", "(a gzipped tar archive)")

TABLE = Table(
    "commands",
    (
        Route("POST", "/commands", Access.OPERATOR, execute, status=201),
        Route("GET", "/commands", Access.VIEWER, listed),
        Route("GET", "/commands/{command_id}", Access.VIEWER, show),
        Route("GET", "/commands/{command_id}/output", Access.VIEWER, output, gives=_BYTES),
        Route("GET", "/commands/{command_id}/artifact", Access.VIEWER, artifact, gives=_ARCHIVE),
        Route("GET", "/commands/{command_id}/terminal", Access.OPERATOR, terminal, gives=_BYTES),
        Route("POST", "/commands/{command_id}/cancel", Access.OPERATOR, cancel),
    ),
)


async def upload(ctx: Ctx, request: RawRequest) -> Blob:
    """Upload an archive (gzipped tar) for a command to start from.

    The id is its SHA-256, so the same archive is kept once.
    """
    stored = await ctx.archives.put(request.stream(), now=ctx.now())
    return Blob(id=stored.name, size=stored.size, expires_at=at(stored.expires_at))


BLOBS = Table(
    "blobs",
    (
        Route(
            "PUT",
            "/blobs",
            Access.OPERATOR,
            upload,
            status=201,
            takes=Raw("application/octet-stream", "(a gzipped tar archive)"),
        ),
    ),
)
