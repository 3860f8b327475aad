"""Connections: how one is made, with which limits, and how long to wait after one couldn't be.

Owns the address and its secret. What it says of the address never has the password in it.
"""

import random
import re
import threading
import time
from collections.abc import Callable

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.numeric import Int8Dumper

from muster.domain.backoff import backoff
from muster.domain.errors import InvalidRequest, StoreUnavailable
from muster.domain.redaction import redact
from muster.stores.sql.postgres.loop_connection import LoopConnection

Connection = LoopConnection

STATEMENT_SECONDS = 15.0
"""A statement of ours takes milliseconds. One that takes this long waits for something that is stuck."""
LOCK_SECONDS = 10.0
IDLE_SECONDS = 10.0
"""A replica that stands still in a transaction loses it, and its locks, long before its leases run out."""
_DEFAULTS: dict[str, str] = {
    "application_name": "muster",
    "client_encoding": "UTF8",
    "connect_timeout": "5",
    # Of several hosts, the one that takes writes. A standby is behind, and knows no locks of the primary's.
    "target_session_attrs": "read-write",
    # A peer that vanished without a word is noticed in about this time.
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
}
PREPARED_MOST = 200
BACKOFF_FIRST, BACKOFF_MOST = 0.1, 5.0
NO_ROOM = (
    "the database has no connection left for this server; raise its max_connections, or lower"
    " store_connections of all servers"
)
_NO_ROOM = ("too many clients already", "too many connections for", "remaining connection slots are reserved")
"""The server's message, in English. libpq has no code for a refused connection. Only the text for people
depends on this.
"""


_RULE = (
    "must be like postgresql://user:password@host:5432/muster; in user and password, write % as %25,"
    " a blank as %20, @ as %40, : as %3A, / as %2F, ? as %3F and # as %23"
)
_PORTS = re.compile(r"[0-9,]*")
LOOK_EVERY = 10.0
"""Longer than a replica without any waits before it asks again: it comes first when there is room."""
KEPT = 0.75
GROWTH = 4
"""One more for so many that it may hold, and at least one."""


class ConnectionFactory:
    """Makes connections. After a failure all who ask are told so at once, until it is time to try again."""

    def __init__(self, url: str, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        try:
            given = conninfo_to_dict(url)
        except psycopg.ProgrammingError:
            # The library's words quote what it couldn't read, which may be the password.
            raise InvalidRequest("store", "…", _RULE) from None
        self._given = {name: str(value) for name, value in given.items() if value is not None}
        if "@" in self._given.get("host", "") or not _PORTS.fullmatch(self._given.get("port", "")):
            raise InvalidRequest("store", "…", _RULE)  # the rest of a password was taken for them
        self.where = _named(self._given)
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._failures = 0
        self._closed_until = 0.0
        self._why: StoreUnavailable | None = None

    @property
    def closed(self) -> StoreUnavailable | None:
        """Return why no connection should be tried at present."""
        with self._lock:
            return self._why if self._monotonic() < self._closed_until else None

    def open(self, *, statement_seconds: float = STATEMENT_SECONDS) -> Connection:
        """Open a connection. Raises StoreUnavailable."""
        closed = self.closed
        if closed is not None:
            raise StoreUnavailable(str(closed), why=closed.why) from closed
        try:
            connection = self.connect(statement_seconds=statement_seconds)
        except psycopg.Error as error:
            raise self._failed(error) from error
        with self._lock:
            self._failures, self._why = 0, None
        return connection

    def connect(
        self, *, statement_seconds: float = STATEMENT_SECONDS, database: str | None = None
    ) -> Connection:
        """Connect at once, without waiting after a failure. Raises the errors of psycopg."""
        other = {} if database is None else {"dbname": database}
        connection = LoopConnection.connect(
            make_conninfo(**{**_DEFAULTS, **self._given, **other}),
            autocommit=True,
            cursor_factory=psycopg.RawCursor,
        )
        try:
            connection.prepared_max = PREPARED_MOST
            # One type for all numbers: a statement would be prepared once per size of a number otherwise.
            connection.adapters.register_dumper(int, Int8Dumper)
            connection.execute(
                f"SET statement_timeout = {int(statement_seconds * 1000)};"
                f" SET lock_timeout = {int(LOCK_SECONDS * 1000)};"
                f" SET idle_in_transaction_session_timeout = {int(IDLE_SECONDS * 1000)};"
                # Our lists end after a page, so what is read in an index's order need not be gathered first.
                # The planner, which takes a pool of one template for smaller than it is, would do that.
                " SET enable_bitmapscan = off"
            )
        except BaseException:
            connection.close()
            raise
        return connection

    def _failed(self, error: psycopg.Error) -> StoreUnavailable:
        said = " ".join(redact(str(error), [self._given.get("password", "")]).split())
        why = StoreUnavailable(
            f"cannot connect to the store at {self.where}: check that it runs, and its address, user,"
            f" password and database ({said})",
            why=NO_ROOM if any(words in said for words in _NO_ROOM) else "no connection to it can be made",
        )
        with self._lock:
            self._failures += 1
            pause = backoff(self._failures, first=BACKOFF_FIRST, most=BACKOFF_MOST)
            # Spread: replicas that lost the same database must not all come back in the same moment.
            pause *= 0.5 + random.random()  # noqa: S311 — spreads load, guards nothing
            self._closed_until = self._monotonic() + pause
            self._why = why
        return why

    @property
    def database(self) -> str:
        return self._given.get("dbname") or self._given.get("user") or "postgres"


def _named(given: dict[str, str]) -> str:
    host = given.get("host") or given.get("hostaddr") or "localhost"
    port = f":{given['port']}" if given.get("port") else ""
    user = f"{given['user']}@" if given.get("user") else ""
    return f"postgresql://{user}{host}{port}/{given.get('dbname', '')}"


class Share:
    """This replica's share of the database's connections, found without any talk between replicas.

    A replica without a connection can't tell the others. So each replica tries every few seconds whether one
    more connection is given. While that works, it grows to its own limit. When it fails, it gives back a part
    of what it holds. A replica with many gives back more than one with few, so all come to about the same.
    See docs/adr/0029.
    """

    def __init__(self, most: int, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._asking = 0
        self.allowed = most
        self.held = 0
        """Connections that do work at present."""
        self._look_at = self._later()

    def ask(self) -> bool:
        """Return whether one more may be asked for. If so, call `asked` when that is over."""
        with self._lock:
            if self.held + self._asking >= self.allowed:
                return False
            self._asking += 1
            return True

    def asked(self) -> None:
        with self._lock:
            self._asking -= 1

    def entered(self) -> None:
        with self._lock:
            self.held += 1

    def left(self) -> None:
        with self._lock:
            self.held -= 1

    def refused(self) -> None:
        """Note that one more was asked for in vain. A replica without connections has nothing to give."""
        with self._lock:
            if self.held:
                others = max(0, self._asking - 1)
                self.allowed = max(1, min(self.allowed, int((self.held + others) * KEPT)))
                self._look_at = self._later()

    def give_back(self) -> bool:
        """Return whether the caller should close its connection. If so, it no longer counts."""
        with self._lock:
            if self.held <= self.allowed:
                return False
            self.held -= 1
            return True

    def look(self) -> bool:
        """Return whether the caller should try for one more connection. Otherwise one without a connection
        will."""
        with self._lock:
            if self._monotonic() < self._look_at:
                return False
            self._look_at = self._later()
            if self.allowed < self._most:
                self.allowed = min(self._most, self.allowed + max(1, self.allowed // GROWTH))
                return False
            return self.held == self._most > 1

    def _later(self) -> float:
        # Spread, or replicas that gave back together would take it again together.
        return self._monotonic() + LOOK_EVERY * (0.5 + random.random())  # noqa: S311 — guards nothing
