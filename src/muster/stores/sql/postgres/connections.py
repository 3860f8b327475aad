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
