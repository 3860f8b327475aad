"""How transactions share the event loop and the connections."""

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import replace

import psycopg
import pytest
from psycopg.pq.abc import PGresult

from muster.domain import node as lifecycle
from muster.domain.errors import Conflict, LeaseLost, NotFound
from muster.domain.ids import NodeId
from muster.ports.store import NodeView, OperationView
from muster.stores.sql import SqlStore
from muster.stores.sql.postgres.bridge import bridged, in_thread, is_bridged, pause, wait_for
from muster.stores.sql.postgres.loop_engine import LoopEngine
from muster.stores.sql.postgres.pipeline import Pipeline
from muster.stores.sql.postgres.store import open_postgres
from muster.stores.sql.tx import Tx
from tests.contracts.store_contract.nodes import Completion
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


@pytest.fixture
def exchanges(monkeypatch: pytest.MonkeyPatch) -> list[Pipeline]:
    """Those made so far. Each wakes two processes, and the rows stay locked meanwhile."""
    made: list[Pipeline] = []
    answers = Pipeline._answers

    def counted(pipeline: Pipeline) -> list[PGresult]:
        made.append(pipeline)
        return answers(pipeline)

    monkeypatch.setattr(Pipeline, "_answers", counted)
    return made


async def test_guards_and_commit_travel_with_the_write_that_they_guard(
    store: SqlStore, exchanges: list[Pipeline]
) -> None:
    records = Records(store)
    await records.idle(1)
    await records.leased()  # the first write of a connection asks for the number of the log's lock
    exchanges.clear()
    operation = await records.leased()
    assert len(exchanges) == 1
    await store.view(operation.id)
    assert len(exchanges) == 1 + 1
    (node,) = await records.claim(operation, 1)
    assert len(exchanges) == 2 + 2, "the event needs the node"
    attached = lifecycle.attached(node, now=5.0, deadline_at=99.0)
    await store.apply(attached, fence=operation.fence)
    assert len(exchanges) == 4 + 1
    completion = await Completion.ready(records)
    exchanges.clear()
    await completion.write()
    assert len(exchanges) == 2, "the beats are judged by the clock of this process"


async def test_claims_that_wait_together_share_their_exchanges(
    store: SqlStore, exchanges: list[Pipeline]
) -> None:
    records = Records(store)
    await records.idle(4)
    operations = [await records.leased() for _ in range(4)]
    exchanges.clear()
    taken = await asyncio.gather(*(records.claim(operation, 1) for operation in operations))
    assert [len(nodes) for nodes in taken] == [1] * 4
    assert len(exchanges) == 2


async def test_reads_that_wait_together_share_their_exchanges(
    store: SqlStore, exchanges: list[Pipeline]
) -> None:
    records = Records(store)
    nodes = await records.idle(3)
    operation = await records.leased()
    exchanges.clear()

    def twice(tx: Tx) -> tuple[int, int]:
        first = int(tx.execute("SELECT 1")[0][0])
        return first, int(tx.execute("SELECT 1 + :first", {"first": first})[0][0])

    found = await asyncio.gather(
        store.node(nodes[0].id),
        store.node_view(nodes[1].id),
        store._engine.read(twice, point=True),
        store.node(NodeId("node-x")),
        store.view(operation.id),
        store.node(nodes[2].id),
        return_exceptions=True,
    )
    assert found[0] == nodes[0] and found[5] == nodes[2]
    assert isinstance(found[1], NodeView) and found[1].node == nodes[1]
    assert found[2] == (1, 2)
    assert isinstance(found[3], NotFound)
    assert isinstance(found[4], OperationView) and found[4].operation == operation
    assert len(exchanges) == 1 + 2, "the one that asked twice is run again by itself"


async def test_a_read_that_fails_in_the_database_fails_alone(store: SqlStore) -> None:
    (node,) = await Records(store).idle(1)

    def wrong(tx: Tx) -> int:
        tx.execute("SELECT 1")
        return int(tx.execute("SELECT 1 / 0")[0][0])

    for _ in range(2):
        found = await asyncio.gather(
            store.node(node.id),
            store._engine.read(wrong, point=True),
            store.node_view(node.id),
            return_exceptions=True,
        )
        assert found[0] == node
        assert isinstance(found[1], psycopg.errors.DivisionByZero)
        assert isinstance(found[2], NodeView) and found[2].node == node


async def test_a_guard_that_refuses_says_which_it_was_and_undoes_all(store: SqlStore) -> None:
    """The hurried transaction only fails. The one after it says why."""
    records = Records(store)
    await records.idle(1)
    operation = await records.leased()
    (node,) = await records.claim(operation, 1)
    attached = lifecycle.attached(node, now=5.0, deadline_at=99.0)
    with pytest.raises(LeaseLost):
        await store.apply(attached, fence=replace(operation.fence, epoch=7))
    assert await store.node(node.id) == node
    moved = await store.apply(attached, fence=operation.fence)
    with pytest.raises(Conflict, match="moved on from version"):
        await store.apply(attached, fence=operation.fence)
    assert await store.node(node.id) == moved


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
