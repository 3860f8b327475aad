"""Write server-sent events: the event feed, and the progress of one operation.

A client may leave a stream and continue it at any point. The place in the feed is the store's opaque cursor,
sent with the last event of each page. After a lost connection at most one page comes twice, and events have
ids. An operation's place is the version of its record. Its history is rebuilt from its events.
"""

from collections.abc import AsyncIterator
from dataclasses import replace

from muster.api.access import Permit
from muster.api.context import SHUTDOWN, Context
from muster.api.diagnoses import diagnose
from muster.api.feed_pages import sse_message
from muster.domain import serialization
from muster.domain.errors import InvalidRequest
from muster.domain.events import Event
from muster.domain.ids import OperationId
from muster.domain.operation import Operation
from muster.domain.serialization import Plain
from muster.ports.store import Cursor
from muster.ports.wakeups import EVENTS, Listener, progress_topic
from muster.wire.base import encode
from muster.wire.operations import Progress

MEDIA_TYPE = "text/event-stream"
HEADERS = {"X-Accel-Buffering": "no"}
_HELLO = b"retry: 1000\n: hello\n\n"
_ALIVE = b": still here\n\n"
_PAGE = 200


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
    history, silence = _History(ctx, operation_id), _Silence(ctx, listener)
    try:
        yield _HELLO
        while not ctx.shutdown.begun and await permit.holds():
            async for operation, at in history.news():
                if operation.version > seen:
                    told = await diagnose(ctx.ports.store, operation, now=at) if operation.ended else None
                    shown = encode(Progress.of(operation, now=at, diagnosis=told))
                    yield sse_message(shown, event="progress", place=str(operation.version))
                    seen = operation.version
                    silence.broken()
                if operation.ended:
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

    def broken(self) -> None:
        self._until = self._ctx.now() + self._ctx.settings.keep_alive

    async def lasts(self) -> bool:
        """Wait until it is time to read again; return whether a sign of life is due."""
        left = max(0.0, self._until - self._ctx.now())
        await self._listener.wait(min(left, self._ctx.settings.look_every))
        if self._ctx.now() < self._until:
            return False
        self.broken()
        return True


class _History:
    """An operation's record as it was after each of its events."""

    def __init__(self, ctx: Context, operation_id: OperationId) -> None:
        self._ctx = ctx
        self._id = operation_id
        self._cursor: Cursor | None = None
        self._fields: dict[str, Plain] = {}

    async def news(self) -> AsyncIterator[tuple[Operation, float]]:
        store = self._ctx.ports.store
        while True:
            page = await store.events(after=self._cursor, limit=_PAGE, entity_id=self._id)
            self._cursor = page.next
            for event in page.items:
                operation = self._after(event)
                if operation is not None:
                    yield operation, event.at
            if len(page.items) < _PAGE:
                break
        if "request" not in self._fields:
            # The beginning was pruned: there is no history to tell, only the present.
            yield await store.operation(self._id), self._ctx.now()

    def _after(self, event: Event) -> Operation | None:
        self._fields.update(event.changes)
        if "request" not in self._fields:
            return None
        return replace(serialization.from_plain(Operation, self._fields), version=event.version)
