"""Tell each agent by a stream of lines what it should do, in place of repeated polls.

Each line is a JSON object with the whole desired state. The first line comes at once. The next one comes when
the desired state changed, and after some seconds in any case. So a silent stream is a broken one, a lost
wake-up costs a few seconds, and each line puts the agent's dead man off. An agent that reads no line gets no
further one. Its next line says what is true by then, so nothing piles up.
"""

import asyncio
import logging

from starlette.types import Receive, Scope, Send

from muster.api.access import admitted
from muster.api.beats import authorization_of
from muster.api.context import SHUTDOWN, Context
from muster.api.middleware import HEADERS, DefaultHeaders
from muster.api.problems import translate
from muster.domain import desired_state as domain
from muster.domain.errors import MusterError
from muster.domain.ids import NodeId
from muster.enrolment.streams import Cause
from muster.wire.agent import Desired, StreamLine
from muster.wire.base import encode

logger = logging.getLogger(__name__)

PATH = "/api/v1/agent/stream"
MEDIA_TYPE = "application/x-ndjson"
_HEADERS = [(b"content-type", MEDIA_TYPE.encode()), (b"x-accel-buffering", b"no"), *HEADERS]


async def with_commands(ctx: Context, node_id: NodeId, found: domain.Desired) -> Desired:
    if found.assignment_id is None or not found.commanded:
        return Desired.of(found, ())
    return Desired.of(found, await ctx.plane.enrolment.commands.unfinished(node_id, found.assignment_id))


def meaning(desired: Desired) -> object:
    """Return what the node should do, without the record's version and without remaining times."""
    return desired.directive, desired.assignment_id, desired.run, desired.kit, desired.commands


class AgentStream:
    """Answers a node that listens, for as long as its token is that node's.

    The stream answers in front of the other routes, as beats do. Thousands of streams are open at once, and
    each layer between a stream and its connection would exist once per stream.
    """

    __slots__ = ("_begun", "_context", "_node_id", "_receive", "_shown")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._context.metrics.agents.add(what="stream")
        try:
            self._shown = authorization_of(scope["headers"]).decode("latin-1")
            self._node_id = await self._context.authenticator.node(self._shown)
            admitted(scope)
            scope["headers"].clear()  # nothing asks for them again, and they would stay for hours
            await self._follow(send)
        except Exception as error:
            if self._begun:
                raise
            problem = translate(error, method="GET", path=PATH).response()
            await DefaultHeaders(problem)(scope, receive, send)

    async def _follow(self, send: Send) -> None:
        with self._context.streams.open(self._node_id, SHUTDOWN) as stream:
            line = await stream.line(self._now, meaning, self._over)
            self._begun = True
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            try:
                while line is not None:
                    await self._tell(*line, send)
                    line = await stream.line(self._now, meaning, self._over)
            except MusterError as error:
                # Said in full when the agent asks anew.
                logger.debug("a stream ended", extra={"node_id": self._node_id, "error": str(error)})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _over(self, silent: bool) -> bool:
        return self._context.shutdown.begun or (silent and await self._gone())

    async def _now(self) -> Desired:
        found = await self._context.plane.enrolment.desired(self._node_id)
        return await with_commands(self._context, self._node_id, found)

    async def _gone(self) -> bool:
        """Return whether the agent closed its connection, or its token no longer speaks for the node."""
        try:
            async with asyncio.timeout(0):
                while (await self._receive())["type"] != "http.disconnect":
                    pass
        except TimeoutError:
            return await self._context.authenticator.node(self._shown) != self._node_id
        return True

    async def _tell(self, cause: Cause, desired: Desired, send: Send) -> None:
        ctx = self._context
        beat_seconds = await ctx.plane.watch_tracker.beat_seconds()
        line = StreamLine(desired=desired, beat_seconds=beat_seconds, spread=ctx.streams.spread)
        ctx.metrics.pushes.add(what=cause.value)
        await send({"type": "http.response.body", "body": encode(line) + b"\n", "more_body": True})
