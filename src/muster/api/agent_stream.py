"""What agents hear: a stream of lines for each, in place of a poll that is asked again and again.

Each line is a JSON object with the whole desired state. The first comes at once, the next when what the agent
should do has changed, or after some seconds in any case: so a silent stream is a broken one, a lost wake-up
costs no more than that, and the agent's dead man is put off. A line that isn't taken holds up the next, which
says then what is true then: nothing piles up for an agent that doesn't read.
"""

import asyncio
import logging

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from muster.api.context import SHUTDOWN, Context
from muster.domain import desired_state as domain
from muster.domain.errors import MusterError
from muster.domain.ids import NodeId
from muster.enrolment.streams import Cause
from muster.wire.agent import Desired, StreamLine
from muster.wire.base import encode

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/x-ndjson"
_HEADERS = [
    (b"content-type", MEDIA_TYPE.encode()),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


async def with_commands(ctx: Context, node_id: NodeId, found: domain.Desired) -> Desired:
    if found.assignment_id is None or not found.commanded:
        return Desired.of(found, ())
    return Desired.of(found, await ctx.plane.enrolment.commands.unfinished(node_id, found.assignment_id))


def meaning(desired: Desired) -> object:
    """What the node should do: all but the record's version, and the time that passes by itself."""
    return desired.directive, desired.assignment_id, desired.run, desired.kit, desired.commands


class AgentStream(Response):
    """The answer to a node that listens, for as long as `shown` proves that it is this node."""

    def __init__(self, context: Context, node_id: NodeId, shown: str | None) -> None:
        self._context = context
        self._node_id = node_id
        self._shown = shown

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        async def over(silent: bool) -> bool:
            return self._context.shutdown.begun or (silent and await self._gone(receive))

        with self._context.streams.open(self._node_id, SHUTDOWN) as stream:
            line = await stream.line(self._now, meaning, over)
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            try:
                while line is not None:
                    await self._tell(*line, send)
                    line = await stream.line(self._now, meaning, over)
            except MusterError as error:
                # Said in full when the agent asks anew.
                logger.debug("a stream ended", extra={"node_id": self._node_id, "error": str(error)})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _now(self) -> Desired:
        found = await self._context.plane.enrolment.desired(self._node_id)
        return await with_commands(self._context, self._node_id, found)

    async def _gone(self, receive: Receive) -> bool:
        """Whether the agent has closed its connection, or another speaks for the node by now."""
        try:
            async with asyncio.timeout(0):
                while (await receive())["type"] != "http.disconnect":
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
