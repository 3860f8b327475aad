"""Wake up other replicas after a write, by NOTIFY.

Wake-ups are hints: polling finds what is lost. So they are sent after the commit, batched, on a connection of
their own. A NOTIFY inside the writing transactions would make all commits wait for each other. Nothing waits
for a wake-up.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence

import psycopg

from muster.domain.errors import StoreUnavailable
from muster.ports.wakeups import Listener, Wakeups
from muster.stores.sql.postgres.bridge import bridged, in_thread
from muster.stores.sql.postgres.connections import ConnectionFactory
from muster.stores.sql.postgres.loop_connection import LoopConnection
from muster.stores.wakeups import LocalWakeups

logger = logging.getLogger(__name__)

CHANNEL = "muster"
GATHER = 0.01
"""Notices are sent this long after the first of them: a busy replica sends a hundred a second at most."""
PAYLOAD_MOST = 7900
"""PostgreSQL takes less than 8,000 bytes."""
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
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self.hearing = asyncio.Event()
        """Set once notices of others come in."""

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks = tuple(map(self._loop.create_task, (self._send_for_ever(), self._hear_for_ever())))

    async def close(self) -> None:
        self._loop = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def notify(self, topic: str) -> None:
        self._local.notify(topic)
        if self._loop is None:
            return
        if not self._topics:
            self._loop.call_later(GATHER, self._due.set)
        self._topics[topic] = None

    def listen(self, topics: Sequence[str]) -> Listener:
        return self._local.listen(topics)

    # --- to others --------------------------------------------------------------------------------

    async def _send_for_ever(self) -> None:
        while True:
            await self._due.wait()
            await self._while_connected(self._send, "cannot send notices")

    async def _send(self, connection: LoopConnection) -> None:
        # Nothing is lost with a hint: don't wait for a disk.
        await bridged(connection.execute, "SET synchronous_commit = off")
        while True:
            await self._due.wait()
            self._due.clear()
            topics, self._topics = list(self._topics), {}
            for payload in payloads(self._name, topics):
                await bridged(connection.execute, "SELECT pg_notify($1, $2)", (CHANNEL, payload))

    # --- from others ------------------------------------------------------------------------------

    async def _hear_for_ever(self) -> None:
        while True:
            await self._while_connected(self._hear, "cannot hear notices")

    async def _hear(self, connection: LoopConnection) -> None:
        await bridged(connection.execute, f"LISTEN {CHANNEL}")
        lost = connection.hear(self._deliver)
        self.hearing.set()
        await lost

    def _deliver(self, payload: str) -> None:
        name, topics = read(payload)
        if name != self._name:
            for topic in topics:
                self._local.notify(topic)

    async def _while_connected(self, use: Callable[[LoopConnection], Awaitable[None]], problem: str) -> None:
        """Use a connection until it is lost, or can't be made; then wait a while."""
        opened: LoopConnection | None = None
        try:
            opened = connection = await bridged(lambda: in_thread(self._factory.open))
            await use(connection)
        except (psycopg.Error, StoreUnavailable) as error:
            logger.debug(problem, extra={"error": str(error)})
            await asyncio.sleep(AGAIN)
        finally:
            if opened is not None:
                opened.close()


def payloads(name: str, topics: Sequence[str]) -> list[str]:
    """Return as few notices as hold all topics."""
    made: list[str] = []
    held: list[str] = [name]
    size = len(name) + 4
    for topic in topics:
        if size + len(topic) + 3 > PAYLOAD_MOST:
            made.append(json.dumps(held, separators=(",", ":")))
            held, size = [name], len(name) + 4
        held.append(topic)
        size += len(topic) + 3
    made.append(json.dumps(held, separators=(",", ":")))
    return made


def read(payload: str) -> tuple[str, list[str]]:
    """Return the topics of a notice; none if it isn't ours. Every holder of the database's password can
    notify."""
    try:
        words = json.loads(payload)
    except ValueError:
        return "", []
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words) or not words:
        return "", []
    return words[0], words[1:]
