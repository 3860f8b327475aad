"""Wake up other replicas after a write, by NOTIFY.

Wake-ups are hints: polling finds what is lost. So they are sent after the commit, batched, on a connection of
their own. A NOTIFY inside the writing transactions would make all commits wait for each other. Nothing waits
for a wake-up. The connection that sends also hears: its own notices come with the answer and wake nothing.
"""

import asyncio
import logging
from collections.abc import Sequence

import psycopg

from muster.domain.errors import StoreUnavailable
from muster.ports.wakeups import Listener, Wakeups
from muster.stores.sql.postgres.bridge import bridged, in_thread
from muster.stores.sql.postgres.connections import ConnectionFactory
from muster.stores.sql.postgres.loop_connection import LoopConnection
from muster.stores.sql.postgres.pipeline import Pipeline
from muster.stores.wakeups import LocalWakeups

logger = logging.getLogger(__name__)

CHANNEL = "muster"
GATHER = 0.01
"""Notices are sent this long after the first of them: a busy replica sends a hundred a second at most."""
PAYLOAD_MOST = 7900
"""PostgreSQL takes less than 8,000 bytes."""
BETWEEN = "\n"
"""Parts a replica's name and the topics, none of which has it. Every replica reads every notice."""
AGAIN = 1.0


class SharedWakeups(Wakeups):
    """Local wake-ups that reach the other replicas, too. `name` tells this replica's own notices apart."""

    def __init__(self, factory: ConnectionFactory, *, name: str) -> None:
        self._factory = factory
        self._name = name
        self._local = LocalWakeups()
        self._topics: dict[str, None] = {}
        self._due = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._talking: asyncio.Task[None] | None = None
        self.hearing = asyncio.Event()
        """Set once notices of others come in."""

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._talking = self._loop.create_task(self._talk_for_ever())

    async def close(self) -> None:
        self._loop = None
        if self._talking is not None:
            self._talking.cancel()
            await asyncio.gather(self._talking, return_exceptions=True)

    def notify(self, topic: str) -> None:
        self._local.notify(topic)
        if self._loop is None:
            return
        if not self._topics:
            self._loop.call_later(GATHER, self._due.set)
        self._topics[topic] = None

    def listen(self, topics: Sequence[str]) -> Listener:
        return self._local.listen(topics)

    # --- between replicas -------------------------------------------------------------------------

    async def _talk_for_ever(self) -> None:
        while True:
            opened: LoopConnection | None = None
            try:
                opened = connection = await bridged(lambda: in_thread(self._factory.open))
                await self._talk(connection)
            except (psycopg.Error, StoreUnavailable) as error:
                logger.debug("cannot exchange notices", extra={"error": str(error)})
                await asyncio.sleep(AGAIN)
            finally:
                if opened is not None:
                    opened.close()

    async def _talk(self, connection: LoopConnection) -> None:
        """Send and hear notices. Raises psycopg.Error when the connection is lost."""
        # Nothing is lost with a hint: don't wait for a disk.
        await bridged(connection.execute, "SET synchronous_commit = off")
        pipeline = Pipeline(connection)
        await bridged(_ask, pipeline, [(f"LISTEN {CHANNEL}", ())])
        lost = connection.hear(self._deliver)
        lost.add_done_callback(lambda _lost: self._due.set())
        self.hearing.set()
        while True:
            await self._due.wait()
            self._due.clear()
            if lost.done():
                await lost
            topics, self._topics = list(self._topics), {}
            await bridged(
                _ask, pipeline, [(_NOTIFY, (CHANNEL, payload)) for payload in payloads(self._name, topics)]
            )

    def _deliver(self, payload: str) -> None:
        """Wake those who listen here. A notice that isn't ours names no topic: every holder of the database's
        password can notify."""
        name, *topics = payload.split(BETWEEN)
        if name != self._name:
            for topic in topics:
                self._local.notify(topic)


_NOTIFY = "SELECT pg_notify($1, $2)"


def _ask(pipeline: Pipeline, statements: Sequence[tuple[str, tuple[str, ...]]]) -> None:
    for sql, given in statements:
        pipeline.defer(sql, given)
    pipeline.answers()


def payloads(name: str, topics: Sequence[str]) -> list[str]:
    """Return as few notices as hold all topics."""
    made: list[str] = []
    held, size = [name], len(name)
    for topic in topics:
        if size + 1 + len(topic) > PAYLOAD_MOST:
            made.append(BETWEEN.join(held))
            held, size = [name], len(name)
        held.append(topic)
        size += 1 + len(topic)
    made.append(BETWEEN.join(held))
    return made
