"""A connection whose waits leave the event loop free.

Inside of a bridge the running loop watches the socket. Elsewhere, as in a thread, a wait blocks. Then
`unwatch` comes first, on the loop, so that the loop and the thread never read at the same time. The socket
stays watched from one wait to the next, because each change of that is a system call.

The loop watches a selector around the socket, not the socket itself. A loop of uvloop forgets a socket that
the server reset, and the wait for it would never end. And libpq closes the socket when it loses the server.
Then the next connection may get the same number, under which the loop would still know the old one.
"""

import asyncio
from collections.abc import Callable
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.pq import ConnStatus
from psycopg.waiting import Ready, Wait

from muster.stores.sql.postgres.bridge import is_bridged, wait_for

RV = TypeVar("RV")


class LoopConnection(psycopg.Connection[tuple[object, ...]]):
    _watching: asyncio.AbstractEventLoop | None = None
    _selector: DefaultSelector | None = None
    _writes = False
    """Whether the selector also tells when the socket takes more."""
    _waiting: asyncio.Future[Ready] | None = None
    _heard: Callable[[str], None] | None = None
    _lost: asyncio.Future[None] | None = None

    def wait(self, gen: PQGen[RV], *given: Any, **named: Any) -> RV:
        """Consume a generator of psycopg, which says what it waits for."""
        if not is_bridged():
            return super().wait(gen, *given, **named)
        try:
            wanted = next(gen)
            while True:
                wanted = gen.send(wait_for(self._ready(wanted)))
        except StopIteration as end:
            value: RV = end.value
            return value
        finally:
            if self.pgconn.status != ConnStatus.OK:
                self.unwatch()
            elif self._heard is not None:
                self._tell_notices()  # what came together with the answer

    def hear(self, heard: Callable[[str], None]) -> asyncio.Future[None]:
        """Call `heard` with each notice from now on. The future fails when the connection is lost while no
        statement runs."""
        loop = asyncio.get_running_loop()
        self._heard, self._lost = heard, loop.create_future()
        self._watch(loop)
        self._readable()  # what came together with the answer to LISTEN
        return self._lost

    def unwatch(self) -> None:
        loop, self._watching = self._watching, None
        if loop is not None and self._selector is not None and not loop.is_closed():
            loop.remove_reader(self._selector.fileno())

    def close(self) -> None:
        self.unwatch()
        if self._selector is not None:
            self._selector.close()
            self._selector = None
        super().close()

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._selector is None:
            self._selector = DefaultSelector()
            self._selector.register(self.fileno(), EVENT_READ)
        if self._watching is not loop:
            self._watching = loop
            loop.add_reader(self._selector.fileno(), self._readable)

    def _ready(self, wanted: Wait) -> asyncio.Future[Ready]:
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[Ready] = loop.create_future()
        self._waiting = waiting
        self._watch(loop)
        self._tell_of_writes(bool(wanted & Wait.W))
        return waiting

    def _tell_of_writes(self, wanted: bool) -> None:
        if wanted is not self._writes and self._selector is not None:
            self._writes = wanted
            self._selector.modify(self.fileno(), EVENT_READ | EVENT_WRITE if wanted else EVENT_READ)

    def _readable(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(self._found() if self._writes else Ready.R)
            return
        try:
            self._tell_of_writes(False)
            self.pgconn.consume_input()  # an answer that no caller waits for, or a notice
            self._tell_notices()
        except psycopg.Error as error:
            self.unwatch()
            if self._lost is not None and not self._lost.done():
                self._lost.set_exception(error)

    def _tell_notices(self) -> None:
        while self._heard is not None and (notice := self.pgconn.notifies()) is not None:
            self._heard(notice.extra.decode())

    def _found(self) -> Ready:
        """Return what the socket is ready for. One that was reset is ready for both."""
        events = self._selector.select(0) if self._selector is not None else []
        mask = events[0][1] if events else EVENT_READ
        return Ready((Ready.R if mask & EVENT_READ else 0) | (Ready.W if mask & EVENT_WRITE else 0))
