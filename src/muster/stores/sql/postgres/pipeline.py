"""Send statements of one connection together where nothing waits for the answer in between.

BEGIN goes along with the first statement of a transaction. The events go along with COMMIT. The COMMIT of a
read is sent, and its answer is read with the next one. Each of these would be a round trip of its own: two
processes wake up for it, and the rows stay locked meanwhile.

The server runs what is sent together in order, and skips the rest after an error. So a COMMIT that follows a
failed statement never happens.
"""

from collections import OrderedDict
from collections.abc import Generator, Sequence

import psycopg
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.waiting import Ready, Wait

from muster.stores.sql.postgres.connections import Connection
from muster.stores.sql.tx import Row, Value

PREPARED_MOST = 200
SEEN_MOST = 2000
_OK = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)
_AUTO = PyFormat.AUTO
Shape = tuple[str, tuple[int, ...]]
"""A statement and the types of its parameters."""


class Pipeline:
    """Sends statements, and waits for all of their answers at once."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._pgconn = connection.pgconn
        self._pgconn.enter_pipeline_mode()
        self._transformer = Transformer(connection)
        self._begun: bytes | None = None
        """What opens a transaction, and wasn't sent yet."""
        self._sent = 0
        """Commands since the last sync, each of which has one answer."""
        self._deferred: list[int] = []
        """Which of them are statements that were deferred."""
        self._unread = 0
        """Syncs whose answers nothing waited for."""
        self._prepared: OrderedDict[Shape, bytes] = OrderedDict()
        self._preparing: list[tuple[Shape, bytes]] = []
        self._seen: dict[Shape, None] = {}
        self._number = 0
        self.uncertain = False
        """A COMMIT was sent, and nothing proves that it didn't happen."""

    # --- transactions -----------------------------------------------------------------------------

    def begin(self, command: bytes) -> None:
        self._begun = command
        self.uncertain = False

    def commit(self) -> bytes:
        """Commit, with what was deferred; return the server's command tag."""
        if self._begun is not None and not self._sent:
            self._begun = None  # nothing was done in it
            return b"COMMIT"
        self._command(b"COMMIT")
        self.uncertain = True
        return self._answers()[-1].command_status or b""

    def end(self) -> list[PGresult]:
        """End a transaction that only read, with what was deferred. Return the answer of each statement."""
        if self._begun is not None:
            self._begun = None
            return []
        places, self._deferred = self._deferred, []
        self._command(b"COMMIT")
        answers = self._answers()
        return [answers[place] for place in places]

    def leave(self) -> None:
        """End a transaction that only read, without a wait for the answer."""
        if self._begun is not None:
            self._begun = None
            return
        self._command(b"COMMIT")
        self._pgconn.pipeline_sync()
        self._pgconn.flush()
        self._sent, self._unread = 0, self._unread + 1

    def roll_back(self) -> None:
        if self._begun is not None and not self._sent:
            self._begun = None
            return
        self._command(b"ROLLBACK")
        self._answers()

    # --- statements -------------------------------------------------------------------------------

    def answers(self) -> list[PGresult]:
        """Wait for the statements that were deferred; return the answer of each."""
        places, self._deferred = self._deferred, []
        answers = self._answers()
        return [answers[place] for place in places]

    def rows(self, answer: PGresult) -> list[Row]:
        self._transformer.set_pgresult(answer)
        return self._transformer.load_rows(0, answer.ntuples, tuple)

    def defer(self, sql: str, given: Sequence[Value]) -> None:
        """Send a statement, whose answer `answers` or `commit` waits for. Raises DataError."""
        transformer = self._transformer
        values = transformer.dump_sequence(given, [_AUTO] * len(given)) if given else ()
        types = tuple(transformer.types or ()) if given else ()
        formats = transformer.formats if given else None
        self._open()
        name = self._name((sql, types))
        if name is None:
            self._pgconn.send_query_params(sql.encode(), values, types, formats)
        else:
            self._pgconn.send_query_prepared(name, values, formats)
        self._deferred.append(self._sent)
        self._sent += 1

    # --- on the wire ------------------------------------------------------------------------------

    def _open(self) -> None:
        if self._begun is not None:
            command, self._begun = self._begun, None
            self._command(command)

    def _command(self, command: bytes) -> None:
        self._pgconn.send_query_params(command, None)
        self._sent += 1

    def _name(self, shape: Shape) -> bytes | None:
        """Return the statement's name on the server. None: it was seen for the first time, and is seldom."""
        name = self._prepared.get(shape)
        if name is not None:
            self._prepared.move_to_end(shape)
            return name
        for preparing, name in self._preparing:
            if preparing == shape:
                return name
        if shape not in self._seen:
            if len(self._seen) >= SEEN_MOST:
                self._seen.clear()
            self._seen[shape] = None
            return None
        if len(self._prepared) >= PREPARED_MOST:
            _, oldest = self._prepared.popitem(last=False)
            self._command(b"DEALLOCATE " + oldest)
        self._number += 1
        name = b"m%d" % self._number
        self._pgconn.send_prepare(name, shape[0].encode(), shape[1])
        self._sent += 1
        self._preparing.append((shape, name))
        return name

    def _answers(self) -> list[PGresult]:
        """Return an answer for each command since the last sync. Raises the first error among them."""
        self._pgconn.pipeline_sync()
        skip, self._unread = self._unread, 0
        wanted, self._sent = self._sent, 0
        self._deferred.clear()
        preparing, self._preparing = self._preparing, []
        found = self.connection.wait(_received(self._pgconn, skip + 1))[-1]
        for number, answer in enumerate(found, 1):
            if answer.status not in _OK:
                # After an error in an earlier statement the server skips the COMMIT.
                self.uncertain = self.uncertain and number == wanted
                raise error_from_result(answer)
        if len(found) != wanted:
            raise psycopg.OperationalError("the server did not answer each statement")
        self._prepared.update(preparing)
        return found


def _received(pgconn: PGconn, syncs: int) -> Generator[Wait, Ready | int, list[list[PGresult]]]:
    """Send what is waiting to be sent and return the answers up to each sync."""
    while pgconn.flush():
        if (yield Wait.RW) & Ready.R:
            pgconn.consume_input()
    found: list[list[PGresult]] = [[]]
    silent = 0
    while len(found) <= syncs:
        try:
            while pgconn.is_busy():
                if (yield Wait.R) & Ready.R:
                    pgconn.consume_input()
        except psycopg.OperationalError:
            if found[-1]:
                return found  # the server said why before it left
            raise
        answer = pgconn.get_result()
        silent = silent + 1 if answer is None else 0
        if answer is None:
            if silent > 1 and pgconn.status != ConnStatus.OK:
                break
        elif answer.status == ExecStatus.PIPELINE_SYNC:
            found.append([])
        else:
            found[-1].append(answer)
    if len(found) <= syncs and not any(found):
        raise psycopg.OperationalError("the connection was lost")
    return found[:syncs]
