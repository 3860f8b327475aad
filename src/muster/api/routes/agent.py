"""The agents' side: joining, signals, desired state, output. A node's token speaks for that node alone."""

from typing import Annotated

from fastapi import Query, Request
from starlette.responses import FileResponse, Response

from muster.api import closing
from muster.api.access import Access
from muster.api.context import Caller, Context, Here, Node
from muster.api.models.agent import (
    BeatIn,
    BeatOut,
    BootOut,
    DesiredAsked,
    DesiredOut,
    EnrolIn,
    EnrolOut,
    JoinIn,
    JoinOut,
    KeptOut,
    KitIn,
    KitOut,
    OutputAt,
    ReportIn,
    StateIn,
    StateOut,
    StoredOut,
)
from muster.api.problems import of_error
from muster.api.routing import Raw, Route, Table
from muster.domain.desired import Desired
from muster.domain.errors import Conflict, Forbidden, NotFound
from muster.domain.ids import AssignmentId, CommandId, NodeId
from muster.domain.template import TemplateSpec
from muster.ports.store import Standing
from muster.ports.wakeups import command_topic


async def join(ctx: Here, body: JoinIn) -> JoinOut:
    """Admit a machine that proves who it is. The same key is the same join; the older token dies."""
    enrolment = ctx.plane.enrolment
    admission = await enrolment.join(body.proof, key=body.key, boot_id=body.boot_id)
    ctx.beats.forget(admission.node_id)
    node = await ctx.ports.store.node(admission.node_id)
    template = await ctx.ports.store.template(node.template, node.revision)
    return JoinOut(
        node_id=admission.node_id,
        token=admission.token,
        beat_seconds=ctx.settings.beat_seconds,
        boot=BootOut(script=_boot_script(ctx, template.spec), env={}),
        desired=await _desired(ctx, admission.node_id, admission.desired),
    )


async def enrol(ctx: Here, token: Caller, body: EnrolIn) -> EnrolOut:
    """Admit an app as a node of the token's template. The same key is the same join; the older token dies."""
    assert token.template is not None  # noqa: S101 — an enrolment token has one
    enrolment = ctx.plane.enrolment
    admitted = await enrolment.apps.enrol(body.app(), template=token.template)
    ctx.beats.forget(admitted.node.id)
    desired = await enrolment.desired(admitted.node.id)
    return EnrolOut(node_id=admitted.node.id, token=admitted.token, desired=DesiredOut.of(desired, ()))


async def beat(ctx: Here, node_id: Node, body: BeatIn) -> BeatOut:  # noqa: ARG001 — only documented
    """Say that this node lives. Answered by `beats`, in front of all this; here for the documentation."""
    return BeatOut(version=(await ctx.plane.enrolment.beat(node_id)).version)


async def report(ctx: Here, node_id: Node, body: ReportIn) -> DesiredOut:
    """Say what has become true. The answer is what to do now."""
    return await reported(ctx, await ctx.ports.store.standing(node_id), body)


async def reported(ctx: Context, standing: Standing, body: ReportIn) -> DesiredOut:
    node_id = standing.node.id
    desired = await ctx.plane.enrolment.report(node_id, body.report(), standing=standing)
    return await _desired(ctx, node_id, desired)


async def kit(ctx: Here, node_id: Node, body: KitIn) -> KitOut:
    """Get what attaching takes, for the present assignment. An earlier answer is worthless from then on."""
    given = await ctx.plane.enrolment.kit(node_id, AssignmentId(body.assignment))
    return KitOut(program=given.program)


async def desired(ctx: Here, node_id: Node, asked: Annotated[DesiredAsked, Query()]) -> DesiredOut:
    """Ask what to do. Held until it differs from the known version, or the time is over."""
    return await awaited(ctx, await ctx.ports.store.standing(node_id), asked)


async def awaited(ctx: Context, standing: Standing, asked: DesiredAsked) -> DesiredOut:
    enrolment, node = ctx.plane.enrolment, standing.node
    if node.version != asked.known or asked.timeout <= 0 or ctx.closing.begun:
        return await _desired(ctx, node.id, await enrolment.told(standing))
    # From here to where the poll listens nothing is awaited, so the end of service is not missed.
    found = await enrolment.poll(node.id, known=asked.known, timeout=asked.timeout, unless=(closing.TOPIC,))
    return await _desired(ctx, node.id, found)


async def output(
    ctx: Here, node_id: Node, command_id: str, asked: Annotated[OutputAt, Query()], request: Request
) -> Response:
    """Send output from an offset on. A gap is refused, with the offset that is expected."""
    commands = ctx.plane.enrolment.commands
    named = CommandId(command_id)
    try:
        kept = await commands.output(node_id, named, asked.offset, await request.body())
    except Conflict as gap:
        problem = of_error(gap)
        assert problem is not None  # noqa: S101 — it is in the table
        kept = await commands.output(node_id, named, 0, b"")
        problem.more["offset"] = kept.size  # type: ignore[index]  # a dict that was made for this answer
        return problem.response()
    ctx.ports.wakeups.notify(command_topic(named))
    body = KeptOut(offset=kept.size, full=kept.full).model_dump_json()
    return Response(body, media_type="application/json")


async def state(ctx: Here, node_id: Node, command_id: str, body: StateIn) -> StateOut:
    """Say how a command is: running, exited, lost."""
    command = await ctx.plane.enrolment.commands.state(
        node_id, CommandId(command_id), body.state, body.exit_code, body.signal
    )
    return StateOut(state=command.state)


async def archive(ctx: Here, node_id: Node, blob_id: str) -> FileResponse:
    """Fetch the archive of a command that this node should execute."""
    node = await ctx.ports.store.node(node_id)
    if node.assignment_id is not None:
        for command in await ctx.plane.enrolment.commands.unfinished(node_id, node.assignment_id):
            if command.execution.archive == blob_id:
                path = await ctx.archives.find(blob_id, now=ctx.now())
                return FileResponse(path, media_type="application/octet-stream")
    raise NotFound("archive", blob_id)


async def artifact(ctx: Here, node_id: Node, command_id: str, request: Request) -> StoredOut:
    """Send what a command brings back."""
    command = await ctx.ports.commands.command(CommandId(command_id))
    if command.node_id != node_id:
        raise Forbidden(f"command {command_id} is not this node's")
    stored = await ctx.results.put_named(command.id, request.stream(), now=ctx.now())
    return StoredOut(size=stored.size)


def _boot_script(ctx: Context, spec: TemplateSpec) -> str:
    runtime = ctx.ports.runtimes.get(spec.runtime)
    return spec.boot_script if runtime is None else runtime.boot_script(spec)


async def _desired(ctx: Context, node_id: NodeId, found: Desired) -> DesiredOut:
    if found.assignment_id is None or not found.commanded:
        return DesiredOut.of(found, ())
    commands = await ctx.plane.enrolment.commands.unfinished(node_id, found.assignment_id)
    return DesiredOut.of(found, commands)


_BYTES = Raw("application/octet-stream", "PASS: 12 tests\n")
_KEPT = Raw("application/json", '{"offset": 4096, "full": false}')
_ARCHIVE = Raw("application/octet-stream", "(a gzipped tar archive)")

TABLE = Table(
    "agent",
    (
        Route("POST", "/agent/join", Access.PUBLIC, join),
        Route("POST", "/agent/enrol", Access.ENROL, enrol),
        Route("POST", "/agent/beat", Access.NODE, beat),
        Route("POST", "/agent/report", Access.NODE, report),
        Route("POST", "/agent/kit", Access.NODE, kit),
        Route("GET", "/agent/desired", Access.NODE, desired),
        Route("GET", "/agent/blobs/{blob_id}", Access.NODE, archive, gives=_ARCHIVE),
        Route("POST", "/agent/commands/{command_id}/output", Access.NODE, output, takes=_BYTES, gives=_KEPT),
        Route("POST", "/agent/commands/{command_id}/state", Access.NODE, state),
        Route("PUT", "/agent/commands/{command_id}/artifact", Access.NODE, artifact, takes=_ARCHIVE),
    ),
)
