"""A connection whose waits leave the event loop free.

Inside of a bridge the running loop watches the socket. Elsewhere, as in a thread, a wait blocks. Then
`unwatch` comes first, on the loop, so that the loop and the thread never read at the same time. The socket
stays watched from one wait to the next, because each change of that is a system call.

libpq closes the socket when it loses the server, and the next connection may get the same number. So the loop
stops watching in the same moment in which the loss is noticed.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.pq import ConnStatus
from psycopg.waiting import Ready, Wait

from muster.stores.sql.postgres.bridge import is_bridged, wait_for

RV = TypeVar("RV")


class LoopConnection(psycopg.Connection[tuple[object, ...]]):
    _watching: asyncio.AbstractEventLoop | None = None
    _watched = -1
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

    def hear(self, heard: Callable[[str], None]) -> asyncio.Future[None]:
        """Call `heard` with each notice from now on. The future fails when the connection is lost."""
        loop = asyncio.get_running_loop()
        self._heard, self._lost = heard, loop.create_future()
        self._watch(loop)
        self._readable()  # what came together with the answer to LISTEN
        return self._lost

    def unwatch(self) -> None:
        loop, self._watching = self._watching, None
        if loop is not None and not loop.is_closed():
            loop.remove_reader(self._watched)

    def close(self) -> None:
        self.unwatch()
        super().close()

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._watching is not loop:
            self._watching, self._watched = loop, self.fileno()
            loop.add_reader(self._watched, self._readable)

    def _ready(self, wanted: Wait) -> asyncio.Future[Ready]:
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[Ready] = loop.create_future()
        self._waiting = waiting
        if wanted & Wait.W:
            loop.add_writer(self.fileno(), self._writable, loop, self.fileno())
        self._watch(loop)
        return waiting

    def _readable(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(Ready.R)
            return
        try:
            self.pgconn.consume_input()  # an answer that no caller waits for, or a notice
            while self._heard is not None and (notice := self.pgconn.notifies()) is not None:
                self._heard(notice.extra.decode())
        except psycopg.Error as error:
            self.unwatch()
            if self._lost is not None and not self._lost.done():
                self._lost.set_exception(error)

    def _writable(self, loop: asyncio.AbstractEventLoop, fd: int) -> None:
        loop.remove_writer(fd)
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(Ready.W)
