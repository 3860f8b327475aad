"""Tell each agent by a stream of lines what it should do, in place of repeated polls.

Each line is a JSON object with the whole desired state. The first line comes at once. The next one comes when
the desired state changed, and after some seconds in any case. So a silent stream is a broken one, a lost
wake-up costs a few seconds, and each line puts the agent's dead man off. An agent that reads no line gets no
further one. Its next line says what is true by then, so nothing piles up.
"""

import asyncio
import logging
from contextlib import ExitStack

from starlette.types import Receive, Scope, Send

from muster.api.beats import authorization_of
from muster.api.connections import ChunkedAnswer, admitted, connection_of
from muster.api.context import SHUTDOWN, Context
from muster.api.middleware import HEADERS, DefaultHeaders
from muster.api.problems import translate
from muster.domain import desired_state as domain
from muster.domain.errors import MusterError
from muster.domain.ids import NodeId
from muster.enrolment.streams import Cause, Stream
from muster.wire.agent import Desired, StreamLine
from muster.wire.base import encode

logger = logging.getLogger(__name__)

PATH = "/api/v1/agent/stream"
MEDIA_TYPE = "application/x-ndjson"
_HEADERS = [
    (b"content-type", MEDIA_TYPE.encode()),
    (b"x-accel-buffering", b"no"),
    (b"connection", b"close"),  # no other answer follows on it
    *HEADERS,
]


async def with_commands(ctx: Context, node_id: NodeId, found: domain.Desired) -> Desired:
    if found.assignment_id is None or not found.commanded:
        return Desired.of(found, ())
    return Desired.of(found, await ctx.plane.enrolment.commands.unfinished(node_id, found.assignment_id))


def meaning(desired: Desired) -> object:
    """Return what the node should do, without the record's version and without remaining times."""
    return desired.directive, desired.assignment_id, desired.run, desired.kit, desired.commands


class AgentStreams:
    """Answers nodes that listen, in front of the other routes, as beats are answered.

    When the first line is sent, the stream leaves its request behind. Then it is a task that holds no more of
    the connection than what a line needs: thousands of streams are open at once.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._following: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._context.metrics.agents.add(what="stream")
        with ExitStack() as held:
            try:
                shown = authorization_of(scope["headers"]).decode("latin-1")
                node_id = await self._context.authenticator.node(shown)
                admitted(scope)
                stream = held.enter_context(self._context.streams.open(node_id, SHUTDOWN))
                follower = _Follower(self._context, stream, node_id, shown, self._following)
                first = await follower.first()
            except Exception as error:
                problem = translate(error, method="GET", path=PATH).response()
                await DefaultHeaders(problem)(scope, receive, send)
                return
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await send({"type": "http.response.body", "body": first, "more_body": True})
            connection = connection_of(scope)
            answer = None if connection is None else connection.hand_over()
            if answer is None:
                await send({"type": "http.response.body", "more_body": False})
                return
            follower.begin(answer)
            held.pop_all()  # from here on the end of the follower's task closes the stream

    async def ended(self, within: float) -> None:
        """Wait until the streams of a server that stops have ended. Break those that don't."""
        if not self._following:
            return
        _, left = await asyncio.wait(self._following, timeout=within)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


class _Follower:
    """Tells one node what it should do, for as long as the token that it showed is its own."""

    __slots__ = ("_context", "_following", "_node_id", "_shown", "_stream")

    def __init__(
        self,
        context: Context,
        stream: Stream,
        node_id: NodeId,
        shown: str,
        following: set[asyncio.Task[None]],
    ) -> None:
        self._context = context
        self._stream = stream
        self._node_id = node_id
        self._shown = shown
        self._following = following

    async def first(self) -> bytes:
        """Return the first line. Raises what the node is refused with."""
        line = await self._line(Cause.FIRST, await self._stream.first(self._now, meaning))
        if self._stream.ended:
            await self._context.authenticator.node(self._shown)  # perhaps the node has a new token
        return line

    def begin(self, answer: ChunkedAnswer) -> None:
        """Send the other lines in a task of their own, until the stream ends or the connection is lost."""
        task = asyncio.get_running_loop().create_task(self._follow(answer))
        answer.lost = task.cancel
        self._following.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        # Not in the task: one that is cancelled before it began runs nothing.
        self._following.discard(task)
        self._stream.close()

    async def _follow(self, answer: ChunkedAnswer) -> None:
        try:
            while (line := await self._next(answer)) is not None:
                answer.send(line)
        except MusterError as error:
            # Said in full when the agent asks anew.
            logger.debug("a stream ended", extra={"node_id": self._node_id, "error": str(error)})
        except asyncio.CancelledError:
            answer.abort()
            raise
        except Exception:
            logger.exception("a stream failed", extra={"node_id": self._node_id})
            answer.abort()
            return
        answer.finish()

    async def _next(self, answer: ChunkedAnswer) -> bytes | None:
        """Wait until a line is due and can be sent, and return it. None: the stream has ended."""
        await answer.taken()
        if self._context.shutdown.begun:
            return None
        due = await self._stream.next(self._now, meaning, self._over)
        if due is None:
            return None
        line = await self._line(*due)
        return None if self._stream.ended else line

    def _over(self) -> bool:
        return self._context.shutdown.begun

    async def _now(self) -> Desired:
        """Read what the node should do. Raises Unauthenticated if the token is no longer its own."""
        node_view = await self._context.authenticator.speaker(self._shown)
        found = await self._context.plane.enrolment.desired_for(node_view)
        return await with_commands(self._context, self._node_id, found)

    async def _line(self, cause: Cause, desired: Desired) -> bytes:
        ctx = self._context
        beat_seconds = await ctx.plane.watch_tracker.beat_seconds()
        ctx.metrics.pushes.add(what=cause.value)
        line = StreamLine(desired=desired, beat_seconds=beat_seconds, spread=ctx.streams.spread)
        return encode(line) + b"\n"
