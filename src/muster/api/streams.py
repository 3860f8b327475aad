"""Write server-sent events: the event feed, and the progress of one operation.

A client may leave a stream and continue it at any point. The place in the feed is the store's opaque cursor,
sent with the last event of each page. After a lost connection at most one page comes twice, and events have
ids. An operation's place is the version of its record. Its history is rebuilt from its events.
"""

from collections.abc import AsyncIterator
from math import inf

from muster.api.access import Permit
from muster.api.context import SHUTDOWN, Context
from muster.domain.errors import InvalidRequest
from muster.domain.ids import OperationId
from muster.ports.store import Cursor
from muster.ports.wakeups import EVENTS, Listener, progress_topic

MEDIA_TYPE = "text/event-stream"
HEADERS = {"X-Accel-Buffering": "no"}
_HELLO = b"retry: 1000\n: hello\n\n"
_ALIVE = b": still here\n\n"
READ_AGAIN = 0.05
"""Seconds after which a stream reads again whose wake-up came before its event could be read."""
LOOK_AFTER = 1.0
"""Seconds after which a stream reads that told what this process wrote: a wake-up for another process's write
may have come together with that one."""


async def feed(
    ctx: Context, permit: Permit, *, after: Cursor | None, entity_id: str | None
) -> AsyncIterator[bytes]:
    """Yield every event after the cursor, then each new one, for as long as the caller's token is valid."""
    listener = ctx.ports.wakeups.listen((EVENTS, SHUTDOWN))
    silence = _Silence(ctx, listener)
    try:
        yield _HELLO
        while not ctx.shutdown.begun and await permit.holds():
            page = await ctx.pages.get(after, entity_id)
            after = page.next
            for piece in page.pieces:
                yield piece
            if page.pieces:
                silence.broken()
            elif await silence.lasts():
                yield _ALIVE
    finally:
        listener.close()


async def progress(
    ctx: Context, permit: Permit, operation_id: OperationId, *, seen: int
) -> AsyncIterator[bytes]:
    """Yield what an operation showed since version `seen`, and what it shows from now on, to its end."""
    listener = ctx.ports.wakeups.listen((progress_topic(operation_id), SHUTDOWN))
    silence, read, hello = _Silence(ctx, listener), 0, _HELLO
    try:
        with ctx.histories.follow(operation_id) as history:
            while not ctx.shutdown.begun and await permit.holds():
                complete = await history.look(read)
                news = [step for step in history.steps[read:] if step.version > seen]
                read, ended = len(history.steps), bool(history.steps) and history.steps[-1].ended
                if hello or news:
                    # In one piece: each that is sent wakes the reader.
                    yield hello + b"".join(step.message for step in news)
                    hello = b""
                if news:
                    seen = news[-1].version
                    silence.broken(sure=not complete)
                if ended:
                    return
                if await silence.lasts():
                    yield _ALIVE
    finally:
        listener.close()


def version_of(last_event_id: str | None) -> int:
    if not last_event_id:
        return 0
    if not last_event_id.isascii() or not last_event_id.isdigit() or len(last_event_id) > len(str(1 << 62)):
        raise InvalidRequest("Last-Event-ID", last_event_id, "must be the id of an event of this stream")
    return int(last_event_id)


class _Silence:
    """Waits for news, and knows when a stream has been silent for so long that it needs a sign of life."""

    def __init__(self, ctx: Context, listener: Listener) -> None:
        self._ctx = ctx
        self._listener = listener
        self.broken()

    def broken(self, *, sure: bool = False) -> None:
        """Note that something was sent. `sure`: it is known to be all, unless a wake-up was lost."""
        self._woken_at = self._ctx.now() - (LOOK_AFTER if sure else 0.0)
        """When something happened last. What else happened then may become readable a little later."""
        self._until = self._ctx.now() + self._ctx.settings.keep_alive

    async def lasts(self) -> bool:
        """Wait until it is time to read again; return whether a sign of life is due."""
        left = max(0.0, self._until - self._ctx.now())
        if await self._listener.wait(min(left, self._ctx.settings.look_every, self._patience())):
            self._woken_at = self._ctx.now()
        if self._ctx.now() < self._until:
            return False
        self._until = self._ctx.now() + self._ctx.settings.keep_alive
        return True

    def _patience(self) -> float:
        """Return the seconds after which to read again, longer each time."""
        waited = self._ctx.now() - self._woken_at
        return inf if waited >= self._ctx.settings.readable_within else max(READ_AGAIN, waited)
