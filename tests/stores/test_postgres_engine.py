"""How transactions share the event loop and the connections."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
from psycopg.pq.abc import PGresult

from muster.domain import node as lifecycle
from muster.stores.sql import SqlStore
from muster.stores.sql.postgres.bridge import bridged, in_thread, is_bridged, pause, wait_for
from muster.stores.sql.postgres.loop_engine import LoopEngine
from muster.stores.sql.postgres.pipeline import Pipeline
from muster.stores.sql.postgres.store import open_postgres
from muster.stores.sql.tx import Tx
from tests.contracts.store_contract.records import Records
from tests.stores import postgres
from tests.stores.ids import CountingIds

BACKEND = "SELECT pg_backend_pid()"


@pytest.fixture
async def store() -> AsyncIterator[SqlStore]:
    address = postgres.fresh()
    store = open_postgres(address, ids=CountingIds(), connections=8)
    yield store
    await store.close()
    postgres.wipe(address)


async def test_a_function_waits_on_the_loop_and_returns_its_value() -> None:
    async def answer() -> int:
        await asyncio.sleep(0)
        return 41

    def works() -> int:
        assert is_bridged()
        pause(0.0)
        return wait_for(answer()) + in_thread(lambda: 1)

    assert await bridged(works) == 42
    assert not is_bridged()


async def test_an_error_while_it_waits_is_raised_where_the_function_stands() -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    def works() -> str:
        try:
            wait_for(fails())
        except ValueError as error:
            return str(error)
        return ""

    assert await bridged(works) == "no"


async def test_guards_travel_with_the_write_that_they_guard(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each exchange wakes two processes, and the rows stay locked meanwhile."""
    records = Records(store)
    await records.idle(1)
    operation = await records.leased()
    (node,) = await records.claim(operation, 1)
    attached = lifecycle.attached(node, now=5.0, deadline_at=99.0)
    made: list[Pipeline] = []
    answers = Pipeline._answers

    def counted(pipeline: Pipeline) -> list[PGresult]:
        made.append(pipeline)
        return answers(pipeline)

    monkeypatch.setattr(Pipeline, "_answers", counted)
    await store.view(operation.id)
    assert len(made) == 1
    await store.apply(attached, fence=operation.fence)
    assert len(made) == 1 + 2  # the guards with the write; the event with COMMIT


async def test_writes_one_after_the_other_use_the_same_connection(store: SqlStore) -> None:
    def backend(tx: Tx) -> int:
        return int(tx.execute(BACKEND)[0][0])

    meeting = threading.Barrier(3)

    def meet(tx: Tx) -> int:
        in_thread(lambda: meeting.wait(30.0))
        return backend(tx)

    assert len({await store._engine.write(backend) for _ in range(5)}) == 1
    assert len(set(await asyncio.gather(*(store._engine.write(meet) for _ in range(3))))) == 3


async def test_a_long_list_holds_up_neither_the_loop_nor_other_reads(store: SqlStore) -> None:
    here, on = threading.Event(), threading.Event()

    def long(tx: Tx) -> int:
        here.set()
        assert on.wait(30.0), "it is read in a thread, so the loop goes on"
        return int(tx.execute("SELECT 7")[0][0])

    listing = asyncio.create_task(store._engine.read(long))
    assert await asyncio.to_thread(here.wait, 30.0)
    await store.installation()
    on.set()
    assert await listing == 7


async def test_the_write_of_a_caller_that_went_away_stands(store: SqlStore) -> None:
    here, on = threading.Event(), threading.Event()

    def raised(tx: Tx) -> None:
        tx.change("UPDATE installation SET max_nodes = 77")
        here.set()
        assert in_thread(lambda: on.wait(30.0))

    writing = asyncio.create_task(store._engine.write(raised))
    assert await asyncio.to_thread(here.wait, 30.0)
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    on.set()

    def after(tx: Tx) -> int:
        return int(tx.execute("SELECT max_nodes FROM installation FOR UPDATE")[0][0])

    assert await store._engine.write(after) == 77, "it waited for the row of the one that went away"


def test_connections_outlive_a_loop_that_ends_when_it_begins_to_look_after_them() -> None:
    """As loops of tests do that share a store: under load, each look came when a test was just over."""
    store = open_postgres(postgres.fresh(), ids=CountingIds())
    engine = store._engine
    assert isinstance(engine, LoopEngine)

    async def used() -> None:
        async with asyncio.timeout(30):
            await store.installation()
        engine._points._look_after(asyncio.get_running_loop())

    for _ in range(3):
        asyncio.run(used())
        assert len(engine._points._idle) == len(engine._points._runners)
    asyncio.run(store.close())
