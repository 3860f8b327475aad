"""The agents' side: joining, signals, desired state, output. A node's token speaks for that node alone."""

from starlette.responses import FileResponse, Response

from muster.agent import terminal_source
from muster.api import context
from muster.api.access import Access
from muster.api.agent_stream import MEDIA_TYPE, meaning, with_commands
from muster.api.context import CallerToken, Context, Ctx, Node, NodeCaller, RawRequest
from muster.api.problems import problem_of_error
from muster.api.router import Raw, Route, Table
from muster.domain.errors import Conflict, NotFound
from muster.domain.ids import AssignmentId, CommandId
from muster.domain.template import TemplateSpec
from muster.domain.terminal import Traffic
from muster.enrolment import reports
from muster.ports.wakeups import command_topic
from muster.wire.agent import (
    Beat,
    Beaten,
    BootScript,
    CommandReport,
    CommandStatus,
    Desired,
    DesiredQuery,
    Enrolled,
    EnrolRequest,
    Joined,
    JoinRequest,
    Kit,
    KitRequest,
    OutputKept,
    OutputOffset,
    Report,
    Stored,
    StreamLine,
)
from muster.wire.base import convert, encode


async def join(ctx: Ctx, body: JoinRequest) -> Joined:
    """Admit a machine that proves who it is. The same key is the same join; the older token dies."""
    enrolment = ctx.plane.enrolment
    admission = await enrolment.join(body.proof, key=body.key, boot_id=body.boot_id)
    ctx.beats.forget(admission.node_id)
    ctx.streams.end(admission.node_id)
    node = await ctx.ports.store.node(admission.node_id)
    template = await ctx.ports.store.template(node.template, node.revision)
    return Joined(
        node_id=admission.node_id,
        token=admission.token,
        beat_seconds=await ctx.plane.watch_tracker.beat_seconds(),
        boot=BootScript(script=_boot_script(ctx, template.spec), env={}),
        desired=await with_commands(ctx, admission.node_id, admission.desired),
    )


async def enrol(ctx: Ctx, token: CallerToken, body: EnrolRequest) -> Enrolled:
    """Admit an app as a node of the token's template. The same key is the same join; the older token dies."""
    assert token.template is not None  # noqa: S101 — an enrolment token has one
    enrolment = ctx.plane.enrolment
    admitted = await enrolment.apps.enrol(body.app(), template=token.template, actor=token.actor)
    ctx.beats.forget(admitted.node.id)
    ctx.streams.end(admitted.node.id)
    desired = await enrolment.desired(admitted.node.id)
    return Enrolled(node_id=admitted.node.id, token=admitted.token, desired=Desired.of(desired, ()))


async def beat(ctx: Ctx, node_id: Node, body: Beat) -> Beaten:  # noqa: ARG001 — only documented
    """Say that this node lives. Answered by `beats`, in front of all this; here for the documentation."""
    return Beaten(version=(await ctx.plane.enrolment.beat(node_id)).version)


async def report(ctx: Ctx, node_view: NodeCaller, body: Report) -> Desired:
    """Say what has become true. The answer is what to do now."""
    node_id, said = node_view.node.id, convert(reports.Report, body, step=body.step or None)
    with ctx.streams.answering(node_id) as stream:
        answer = await with_commands(
            ctx, node_id, await ctx.plane.enrolment.report(node_id, said, node_view=node_view)
        )
        if stream is not None:
            stream.last_sent = meaning(answer)
    return answer


async def kit(ctx: Ctx, node_id: Node, body: KitRequest) -> Kit:
    """Get what attaching takes, for the present assignment. An earlier answer is worthless from then on."""
    given = await ctx.plane.enrolment.kit(node_id, AssignmentId(body.assignment))
    return Kit(program=given.program)


async def desired(ctx: Ctx, node_view: NodeCaller, asked: DesiredQuery) -> Desired:
    """Ask what to do. Held until it differs from the known version, or the time is over."""
    enrolment, node = ctx.plane.enrolment, node_view.node
    if node.version != asked.known or asked.timeout <= 0 or ctx.shutdown.begun:
        return await with_commands(ctx, node.id, await enrolment.desired_for(node_view))
    # From here to where the poll listens nothing is awaited, so the end of service is not missed.
    found = await enrolment.poll(
        node.id, known=asked.known, timeout=asked.timeout, unless=(context.SHUTDOWN,)
    )
    return await with_commands(ctx, node.id, found)


async def stream(ctx: Ctx, node_id: Node) -> StreamLine:
    """Hear what to do: a line of JSON at once, whenever it changes, and at least every 25 s.
    Answered by `agent_stream`, in front of all this; here for the documentation."""
    desired = await with_commands(ctx, node_id, await ctx.plane.enrolment.desired(node_id))
    beat_seconds = await ctx.plane.watch_tracker.beat_seconds()
    return StreamLine(desired=desired, beat_seconds=beat_seconds, spread=ctx.streams.spread)


async def output(
    ctx: Ctx, node_id: Node, command_id: str, asked: OutputOffset, request: RawRequest
) -> OutputKept | Response:
    """Send output from an offset on. A gap is refused, with the offset that is expected."""
    commands = ctx.plane.enrolment.commands
    named = CommandId(command_id)
    try:
        kept = await commands.output(node_id, named, asked.offset, await request.whole())
    except Conflict as gap:
        problem = problem_of_error(gap)
        assert problem is not None  # noqa: S101 — it is in the table
        kept = await commands.output(node_id, named, 0, b"")
        problem.more["offset"] = kept.size  # type: ignore[index]  # a dict that was made for this answer
        return problem.response()
    ctx.ports.wakeups.notify(command_topic(named))
    return OutputKept(offset=kept.size, full=kept.full)


async def state(ctx: Ctx, node_id: Node, command_id: str, body: CommandReport) -> CommandStatus:
    """Say how a command is: running, exited, lost."""
    command = await ctx.plane.enrolment.commands.state(
        node_id,
        CommandId(command_id),
        body.state,
        body.exit_code,
        body.signal,
        timed_out=body.timed_out,
        traffic=None if body.traffic is None else convert(Traffic, body.traffic),
    )
    return CommandStatus(state=command.state)


async def archive(ctx: Ctx, node_view: NodeCaller, blob_id: str) -> Response:
    """Fetch the archive or the standard input of a command that this node should execute, or the program that
    serves terminals."""
    node = node_view.node
    if blob_id == TERMINAL:
        return Response(terminal_source(), media_type="text/x-python")
    if node.assignment_id is not None:
        for command in await ctx.plane.enrolment.commands.unfinished(node.id, node.assignment_id):
            if blob_id in command.blobs:
                path = await ctx.archives.find(blob_id, now=ctx.now())
                return FileResponse(path, media_type="application/octet-stream")
    raise NotFound("archive", blob_id)


async def artifact(ctx: Ctx, node_id: Node, command_id: str, request: RawRequest) -> Stored:
    """Send what a command brings back, before its end is told."""
    command = await ctx.plane.enrolment.commands.open(node_id, CommandId(command_id))
    stored = await ctx.results.put_named(command.id, request.stream(), now=ctx.now())
    return Stored(size=stored.size)


def _boot_script(ctx: Context, spec: TemplateSpec) -> str:
    runtime = ctx.ports.runtimes.get(spec.runtime)
    return spec.boot_script if runtime is None else runtime.boot_script(spec)


TERMINAL = "terminal"
_LINES = Raw(MEDIA_TYPE, encode(StreamLine.EXAMPLE).decode() + "\n")
_BYTES = Raw("application/octet-stream", "PASS: 12 tests\n")
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
        Route("GET", "/agent/stream", Access.NODE, stream, gives=_LINES),
        Route("GET", "/agent/blobs/{blob_id}", Access.NODE, archive, gives=_ARCHIVE),
        Route("POST", "/agent/commands/{command_id}/output", Access.NODE, output, takes=_BYTES),
        Route("POST", "/agent/commands/{command_id}/state", Access.NODE, state),
        Route("PUT", "/agent/commands/{command_id}/artifact", Access.NODE, artifact, takes=_ARCHIVE),
    ),
)
