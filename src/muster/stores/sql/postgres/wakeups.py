"""Wake up other replicas after a write, by NOTIFY.

Wake-ups are hints: polling finds what is lost. So they are sent after the commit, batched, on a connection of
their own. A NOTIFY inside the writing transactions would make all commits wait for each other. Nothing waits
for a wake-up.
"""

import asyncio
import json
import logging
import queue
import threading
from collections.abc import Sequence

import psycopg

from muster.domain.errors import StoreUnavailable
from muster.ports.wakeups import Listener, Wakeups
from muster.stores.sql.postgres.connections import Connection, ConnectionFactory
from muster.stores.wakeups import LocalWakeups

logger = logging.getLogger(__name__)

CHANNEL = "muster"
GATHER = 0.01
"""Notices are sent this long after the first of them: a busy replica sends a hundred a second at most."""
PAYLOAD_MOST = 7900
"""PostgreSQL takes less than 8,000 bytes."""
LOOK_UP = 0.5
"""How often the listening thread looks whether it should end."""
AGAIN = 1.0


class SharedWakeups(Wakeups):
    """Local wake-ups that reach the other replicas, too. `name` tells this replica's own notices apart."""

    def __init__(self, factory: ConnectionFactory, *, name: str) -> None:
        self._factory = factory
        self._name = name
        self._local = LocalWakeups()
        self._topics: dict[str, None] = {}
        self._outbox: queue.SimpleQueue[list[str] | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads = (
            threading.Thread(target=self._send_for_ever, name="muster-notices-out", daemon=True),
            threading.Thread(target=self._hear_for_ever, name="muster-notices-in", daemon=True),
        )
        self.hearing = threading.Event()
        """Set once notices of others come in."""

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        for thread in self._threads:
            thread.start()

    async def close(self) -> None:
        self._closed.set()
        self._outbox.put(None)
        for thread in self._threads:
            if thread.is_alive():
                await asyncio.to_thread(thread.join)

    def notify(self, topic: str) -> None:
        self._local.notify(topic)
        if self._loop is None:
            return
        if not self._topics:
            self._loop.call_later(GATHER, self._hand_over)
        self._topics[topic] = None

    def listen(self, topics: Sequence[str]) -> Listener:
        return self._local.listen(topics)

    def _hand_over(self) -> None:
        topics, self._topics = list(self._topics), {}
        self._outbox.put(topics)

    def _heard(self, topics: Sequence[str]) -> None:
        for topic in topics:
            self._local.notify(topic)

    # --- in threads -------------------------------------------------------------------------------

    def _send_for_ever(self) -> None:
        connection: Connection | None = None
        while (topics := self._outbox.get()) is not None:
            try:
                connection = connection or self._opened()
                for payload in payloads(self._name, topics):
                    connection.execute("SELECT pg_notify($1, $2)", (CHANNEL, payload))
            except (psycopg.Error, StoreUnavailable) as error:
                logger.debug("cannot send notices", extra={"error": str(error)})
                _closed(connection)
                connection = None
        _closed(connection)

    def _opened(self) -> Connection:
        connection = self._factory.open()
        # Nothing is lost with a hint: don't wait for a disk.
        connection.execute("SET synchronous_commit = off")
        return connection

    def _hear_for_ever(self) -> None:
        while not self._closed.is_set():
            connection: Connection | None = None
            try:
                connection = self._factory.open()
                connection.execute(f"LISTEN {CHANNEL}")
                self.hearing.set()
                while not self._closed.is_set():
                    for notice in connection.notifies(timeout=LOOK_UP):
                        self._deliver(notice.payload)
            except (psycopg.Error, StoreUnavailable) as error:
                logger.debug("cannot hear notices", extra={"error": str(error)})
                self._closed.wait(AGAIN)
            finally:
                _closed(connection)

    def _deliver(self, payload: str) -> None:
        loop = self._loop
        name, topics = read(payload)
        if name != self._name and loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._heard, topics)


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


def _closed(connection: Connection | None) -> None:
    if connection is not None:
        connection.close()
