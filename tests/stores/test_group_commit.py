import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from muster.domain.errors import Conflict, MusterError, StoreUnavailable
from muster.ports.commits import Written
from muster.stores.sql import engines
from muster.stores.sql.engines import BATCH_MOST, ThreadedEngine
from muster.stores.sql.sqlite import Reader, Writer, connect
from muster.stores.sql.tx import Tx, Work, WorkResult


class Gated:
    """A writer that waits to be let through, so that a test decides what gathers behind a batch."""

    def __init__(self, inner: Writer) -> None:
        self._inner = inner
        self.gate = threading.Event()
        self.sizes: list[int] = []

    def ready(self) -> bool:
        return True

    def run(self, batch: Sequence[Work[Any]]) -> tuple[list[WorkResult], list[Written]]:
        self.gate.wait()
        self.sizes.append(len(batch))
        return self._inner.run(batch)

    def close(self) -> None:
        self._inner.close()


class Log:
    def __init__(self, path: Path) -> None:
        connection = connect(path)
        connection.execute("CREATE TABLE log (word TEXT NOT NULL UNIQUE)")
        self.commits = 0
        connection.set_trace_callback(self._traced)
        self.writer = Gated(Writer(connection))
        self.announced: list[Sequence[Written]] = []
        self.engine = ThreadedEngine(self.writer, Reader(connect(path, readonly=True)), self.announced.append)

    def _traced(self, statement: str) -> None:
        self.commits += statement == "COMMIT"

    async def write(self, word: str, error: Exception | None = None, *, urgent: bool = False) -> str:
        def work(tx: Tx) -> str:
            tx.change("INSERT INTO log (word) VALUES (:word)", {"word": word})
            if error is not None:
                raise error
            return word

        return await self.engine.write(work, urgent=urgent)

    async def words(self, order: str = "word") -> list[str]:
        rows = await self.engine.read(lambda tx: tx.execute(f"SELECT word FROM log ORDER BY {order}"))
        return [row[0] for row in rows]


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[Log]:
    log = Log(tmp_path / "log.db")
    yield log
    log.writer.gate.set()
    await log.engine.close()


async def test_writes_that_wait_together_share_one_commit(log: Log) -> None:
    log.writer.gate.set()
    words = [f"w{number:03d}" for number in range(BATCH_MOST)]
    assert await asyncio.gather(*(log.write(word) for word in words)) == words
    assert log.writer.sizes == [BATCH_MOST]
    assert log.commits == 1
    assert await log.words() == words


async def test_a_batch_has_a_largest_size(log: Log) -> None:
    tasks = [asyncio.create_task(log.write(f"w{number:03d}")) for number in range(BATCH_MOST + 10)]
    await asyncio.sleep(0)
    log.writer.gate.set()
    await asyncio.gather(*tasks)
    assert log.writer.sizes == [BATCH_MOST, 10]


async def test_one_failing_write_does_not_hurt_its_neighbours(log: Log) -> None:
    log.writer.gate.set()
    ends = await asyncio.gather(
        log.write("a"),
        log.write("b", Conflict("cannot")),
        log.write("c"),
        log.write("a"),
        log.write("d", ZeroDivisionError()),
        log.write("e"),
        return_exceptions=True,
    )
    assert log.writer.sizes == [6]
    assert [end if isinstance(end, str) else type(end) for end in ends] == [
        "a",
        Conflict,
        "c",
        Conflict,
        ZeroDivisionError,
        "e",
    ]
    assert await log.words() == ["a", "c", "e"]


async def test_a_write_that_fails_alone_leaves_nothing(log: Log) -> None:
    log.writer.gate.set()
    with pytest.raises(Conflict):
        await log.write("a", Conflict("cannot"))
    assert await log.words() == []
    assert await log.write("a") == "a"


async def test_no_writer_is_answered_before_the_commit(log: Log) -> None:
    log.writer.gate.set()
    connection = log.writer._inner._connection
    # A commit that is refused takes the whole batch with it, and each waiter hears so.
    connection.set_authorizer(
        lambda action, arg, *_: (
            sqlite3.SQLITE_DENY
            if action == sqlite3.SQLITE_TRANSACTION and arg == "COMMIT"
            else sqlite3.SQLITE_OK
        )
    )
    ends = await asyncio.gather(log.write("a"), log.write("b"), return_exceptions=True)
    assert all(isinstance(end, sqlite3.DatabaseError) for end in ends)
    connection.set_authorizer(None)
    assert await log.words() == []
    assert await log.write("a") == "a"


async def test_a_cancelled_callers_write_stands(log: Log) -> None:
    lost = asyncio.create_task(log.write("a"))
    kept = asyncio.create_task(log.write("b"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    lost.cancel()
    log.writer.gate.set()
    assert await kept == "b"
    assert await log.words() == ["a", "b"]


async def test_closing_finishes_what_was_submitted(log: Log) -> None:
    tasks = [asyncio.create_task(log.write(word)) for word in ("a", "b")]
    await asyncio.sleep(0)
    log.writer.gate.set()
    await log.engine.close()
    assert await asyncio.gather(*tasks) == ["a", "b"]
    with pytest.raises(MusterError):
        await log.write("c")


async def test_reads_that_wait_together_see_one_snapshot_and_fail_alone(log: Log) -> None:
    log.writer.gate.set()
    await log.write("a")

    def wrong(tx: Tx) -> list[str]:
        raise Conflict("cannot")

    ends = await asyncio.gather(log.words(), log.engine.read(wrong), log.words(), return_exceptions=True)
    assert ends[0] == ends[2] == ["a"]
    assert isinstance(ends[1], Conflict)


async def test_what_is_urgent_waits_for_no_flood(log: Log) -> None:
    words = [f"w{number:03d}" for number in range(5 * BATCH_MOST)]
    flood = [asyncio.create_task(log.write(word)) for word in words]
    await asyncio.sleep(0)
    urgent = asyncio.create_task(log.write("lease", urgent=True))
    await asyncio.sleep(0)
    log.writer.gate.set()
    await asyncio.gather(*flood, urgent)
    order = await log.words("rowid")
    assert order.index("lease") <= BATCH_MOST, "behind at most the batch that was taken already"
    assert [word for word in order if word != "lease"] == words


async def test_a_store_that_does_not_keep_up_says_so_instead_of_queueing(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    flood = [asyncio.create_task(log.write(f"w{number:03d}")) for number in range(2 * BATCH_MOST)]
    await asyncio.sleep(0)
    monkeypatch.setattr(engines, "WAITING_SECONDS", -1.0)
    with pytest.raises(StoreUnavailable, match=r"others wait for one of its 1 connections, the first for"):
        await log.write("late")
    urgent = asyncio.create_task(log.write("lease", urgent=True))
    await asyncio.sleep(0)
    log.writer.gate.set()
    assert await urgent == "lease"
    await asyncio.gather(*flood)
