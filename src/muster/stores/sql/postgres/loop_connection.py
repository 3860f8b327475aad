"""A connection whose waits leave the event loop free.

Inside of a bridge the socket is watched by the running loop. Elsewhere, as in a thread, a wait blocks. The
socket stays registered from one wait to the next, because each change of that is a system call.
"""

import asyncio
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.waiting import Ready, Wait

from muster.stores.sql.postgres.bridge import is_bridged, wait_for

RV = TypeVar("RV")


class LoopConnection(psycopg.Connection[tuple[object, ...]]):
    _watching: asyncio.AbstractEventLoop | None = None
    _waiting: asyncio.Future[Ready] | None = None
    _watched = -1

    def wait(self, gen: PQGen[RV], *given: Any, **named: Any) -> RV:
        """Consume a generator of psycopg, which says what it waits for."""
        if not is_bridged():
            self._unwatch()
            return super().wait(gen, *given, **named)
        try:
            wanted = next(gen)
            while True:
                wanted = gen.send(wait_for(self._ready(wanted)))
        except StopIteration as end:
            value: RV = end.value
            return value

    def close(self) -> None:
        self._unwatch()
        super().close()

    def _ready(self, wanted: Wait) -> asyncio.Future[Ready]:
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[Ready] = loop.create_future()
        self._waiting = waiting
        if wanted & Wait.W:
            loop.add_writer(self.fileno(), self._writable, loop, self.fileno())
        if self._watching is not loop:
            self._watching, self._watched = loop, self.fileno()
            loop.add_reader(self._watched, self._readable)
        return waiting

    def _readable(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(Ready.R)
            return
        try:
            self.pgconn.consume_input()  # an answer that no caller waits for
        except psycopg.Error:
            self._unwatch()  # the server has ended the session

    def _writable(self, loop: asyncio.AbstractEventLoop, fd: int) -> None:
        loop.remove_writer(fd)
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(Ready.W)

    def _unwatch(self) -> None:
        if self._watching is not None:
            if not self._watching.is_closed():
                self._watching.remove_reader(self._watched)
            self._watching = None
