"""What one writer gives for free must hold where transactions run side by side."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from muster.domain import node as lifecycle
from muster.domain.errors import CapReached, Conflict, LeaseLost
from muster.domain.events import Draft, Entity
from muster.domain.node import Node
from muster.domain.reasons import Reason
from muster.domain.template import TemplateSpec
from muster.ports.store import Beat
from muster.stores.sql import SqlStore, events, guards, liveness, nodes
from muster.stores.sql.postgres import feed
from muster.stores.sql.postgres.bridge import in_thread
from muster.stores.sql.postgres.store import open_postgres
from muster.stores.sql.tx import Tx
from tests.contracts.store_contract.bookkeeping import assert_books_balance, whole_feed
from tests.contracts.store_contract.records import Records
from tests.stores import postgres
from tests.stores.ids import CountingIds


@pytest.fixture(scope="module")
def address() -> str:
    return postgres.fresh()


@pytest.fixture(scope="module")
def opened(address: str) -> Iterator[SqlStore]:
    store = open_postgres(address, ids=CountingIds(), connections=12)
    yield store
    asyncio.run(store.close())


@pytest.fixture
async def store(address: str, opened: SqlStore) -> AsyncIterator[SqlStore]:
    yield opened
    await assert_books_balance(opened)
    postgres.wipe(address)


class Standstill:
    """A transaction that stops where it is, for as long as a test wants."""

    def __init__(self) -> None:
        self.here = threading.Event()
        self.on = threading.Event()

    def __call__(self) -> None:
        self.here.set()
        assert in_thread(lambda: self.on.wait(30.0))

    async def reached(self) -> None:
        assert await asyncio.to_thread(self.here.wait, 30.0)


def appended(tx: Tx, name: str) -> None:
    draft = Draft(entity=Entity.INSTALLATION, entity_id="x", version=0, name=name, changes={})
    events.append(tx, draft, at=1.0)


async def a_backend_waits(store: SqlStore) -> bool:
    """For a lock of this database's."""
    sql = """
        SELECT 1 FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid
        WHERE NOT l.granted AND a.datname = current_database()
    """
    return bool(await store._engine.read(lambda tx: tx.execute(sql)))


async def until_a_backend_waits(store: SqlStore, somebody: asyncio.Task[Any]) -> None:
    while not somebody.done() and not await a_backend_waits(store):
        continue
    assert not somebody.done()


async def names(store: SqlStore) -> list[str]:
    page = await store.events(after=None, limit=100)
    return [event.name for event in page.items]


async def test_a_reader_never_passes_an_event_that_may_still_appear(store: SqlStore, address: str) -> None:
    await store.note("x", "first", reason=None, detail="", now=1.0)
    cursor = (await store.events(after=None, limit=10)).next
    with psycopg.connect(address, cursor_factory=psycopg.RawCursor) as slow:
        _draw(slow)
        await store.note("x", "later", reason=None, detail="", now=1.0)
        assert (await store.events(after=cursor, limit=10)).items == ()
        assert (await store.events(after=cursor, limit=10, entity_id="x")).items == ()
        assert [event.name for event in (await store.last_events(limit=10)).items] == ["first"]
        slow.commit()
    page = await store.events(after=cursor, limit=10)
    assert [event.name for event in page.items] == ["slow", "later"]


async def test_an_event_that_was_given_up_delays_no_reader(store: SqlStore, address: str) -> None:
    with psycopg.connect(address, cursor_factory=psycopg.RawCursor) as slow:
        _draw(slow)
        slow.rollback()
    await store.note("x", "later", reason=None, detail="", now=1.0)
    assert await names(store) == ["later"]


async def test_who_appends_later_holds_back_only_what_comes_after(store: SqlStore, address: str) -> None:
    await store.note("x", "before", reason=None, detail="", now=1.0)
    with psycopg.connect(address, cursor_factory=psycopg.RawCursor) as slow:
        _draw(slow)
        assert await names(store) == ["before"]


def _draw(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """What a writer does at its end, but for the commit."""
    cursor = connection.cursor()
    cursor.execute("BEGIN")
    row = cursor.execute(feed.KEY).fetchone()
    assert row is not None
    cursor.execute(feed.MARK.replace(":key", "$1"), (feed.signed(int(str(row[0]))),))
    cursor.execute(
        "INSERT INTO events (at, entity, entity_id, version, name, changes, detail)"
        " VALUES (1, 'installation', 'x', 0, 'slow', '{}', '')"
    )


@pytest.mark.parametrize("last", [5, 2**31 - 1, 2**31, 2**31 + 1, 3 * 2**31 + 7])
def test_a_mark_is_read_around_the_end_of_its_31_bits(last: int) -> None:
    for number in (last - 3, last - 1, last):
        assert feed._before(last, number % 2**31) == number
    for newer in (last + 1, last + 5):
        assert feed._before(last, newer % 2**31) == last


async def test_a_writer_that_stands_still_before_its_end_delays_no_reader(store: SqlStore) -> None:
    """Only the last moment of a transaction does: until then no number is drawn."""
    still = Standstill()

    def slow(tx: Tx) -> None:
        appended(tx, "slow")
        still()

    writing = asyncio.create_task(store._engine.write(slow))
    await still.reached()
    await store.note("x", "quick", reason=None, detail="", now=1.0)
    assert await names(store) == ["quick"]
    still.on.set()
    await writing
    assert await names(store) == ["quick", "slow"]


async def test_an_entitys_events_keep_their_order_whichever_writer_began_first(store: SqlStore) -> None:
    """The first to begin, and so with the lower transaction number, writes the record last."""
    records = Records(store)
    (node,) = await records.created(await records.leased(), 1)
    still = Standstill()

    def early(tx: Tx) -> None:
        tx.change("UPDATE installation SET max_nodes = max_nodes")  # it has a number from here on
        still()
        row = tx.execute("SELECT version FROM nodes WHERE id = :id FOR UPDATE", {"id": node.id})
        now = replace(node, version=row[0][0], boot_id="b-1", joined_at=3.0)
        nodes.apply(tx, lifecycle.joined(now, boot_id="b-2", now=4.0), fence=None)

    writing = asyncio.create_task(store._engine.write(early))
    await still.reached()
    await store.apply(lifecycle.joined(node, boot_id="b-1", now=3.0))
    still.on.set()
    await writing
    page = await store.events(after=None, limit=100, entity_id=node.id)
    assert [event.version for event in page.items] == [1, 2, 3]


async def test_a_takeover_waits_for_a_write_under_the_old_epoch_or_that_write_is_refused(
    store: SqlStore,
) -> None:
    records = Records(store)
    operation = await records.leased(until=10.0)
    (node,) = await records.created(operation, 1)
    still = Standstill()

    def slow(tx: Tx) -> Node:
        guards.check_fence(tx, operation.fence)
        tx.execute("SELECT 1")  # a guard goes to the database with the next statement
        still()
        return nodes.apply(tx, lifecycle.joined(node, boot_id="b", now=3.0), fence=operation.fence)

    writing = asyncio.create_task(store._engine.write(slow))
    await still.reached()
    # Replicas that would take it over pass it by: its holder is about to write.
    assert list(await store.lease("replica-b", now=20.0, until=80.0, limit=9)) == []
    still.on.set()
    written = await writing
    (taken,) = await store.lease("replica-b", now=20.0, until=80.0, limit=9)
    assert taken.epoch == operation.epoch + 1
    with pytest.raises(LeaseLost):
        await store.apply(lifecycle.condemn(written, reason=Reason.OPERATOR, now=4.0), fence=operation.fence)


async def test_caps_hold_when_several_reserve_at_once(store: SqlStore) -> None:
    records = Records(store)
    await store.apply_template(TemplateSpec(name="web", provider="simulated", max_nodes=10), now=1.0)
    leased = [await records.leased() for _ in range(16)]

    async def reserve(number: int) -> bool:
        launch = records.plan(leased[number], size=3)
        try:
            await store.reserve(launch, cap=10, total_cap=10, fence=leased[number].fence)
        except CapReached:
            return False
        return True

    assert sum(await asyncio.gather(*(reserve(number) for number in range(16)))) == 3
    assert (await store.usage("web")).total == 9


async def test_nodes_that_others_hold_without_taking_them_are_waited_for(store: SqlStore) -> None:
    """A claim looks for its own nodes and for anybody's, and so holds more than it takes for a moment."""
    records = Records(store)
    idle = await records.idle(3)
    operation = await records.leased()
    still = Standstill()

    def holding(tx: Tx) -> None:
        tx.execute("SELECT id FROM nodes WHERE state = 'idle' FOR UPDATE")
        still()

    held = asyncio.create_task(store._engine.write(holding))
    await still.reached()
    claiming = asyncio.create_task(records.claim(operation, 2))
    await until_a_backend_waits(store, claiming)
    still.on.set()
    await held
    assert {node.id for node in await claiming} < {node.id for node in idle}
    assert len(await records.claim(operation, 2)) == 1


async def test_transactions_that_meet_in_a_deadlock_are_run_again(store: SqlStore) -> None:
    meeting = threading.Barrier(2)
    runs: list[str] = []

    def crossing(first: str, second: str) -> Callable[[Tx], None]:
        def work(tx: Tx) -> None:
            runs.append(first)
            tx.change("UPDATE counters SET used = used WHERE scope = :scope", {"scope": first})
            if len(runs) <= 2:
                in_thread(lambda: meeting.wait(30.0))
            tx.change("UPDATE counters SET used = used WHERE scope = :scope", {"scope": second})

        return work

    records = Records(store)
    await records.created(await records.leased(), 1)
    await asyncio.gather(
        store._engine.write(crossing("total", "template/web")),
        store._engine.write(crossing("template/web", "total")),
    )
    assert len(runs) >= 3


async def test_a_beat_that_meets_the_end_of_its_node_leaves_no_row_behind(store: SqlStore) -> None:
    records = Records(store)
    (node,) = await records.created(await records.leased(), 1)
    doomed = await store.apply(lifecycle.condemn(node, reason=Reason.OPERATOR, now=3.0))
    still = Standstill()

    def burying(tx: Tx) -> None:
        nodes.apply(tx, lifecycle.confirm_gone(doomed, now=4.0), fence=None)
        still()

    writing = asyncio.create_task(store._engine.write(burying))
    await still.reached()
    beating = asyncio.create_task(store.record_beats([Beat(node_id=node.id, seen_at=5.0)]))
    await until_a_backend_waits(store, beating)
    still.on.set()
    await asyncio.gather(writing, beating)
    assert await store.last_seen([node.id]) == {}


async def test_a_sign_of_life_and_the_verdict_on_silence_never_pass_each_other(store: SqlStore) -> None:
    """The verdict holds the row that a beat wants to write: one of them is first, and the other knows."""
    records = Records(store)
    (node,) = await records.idle(1)
    still = Standstill()

    def judging(tx: Tx) -> None:
        liveness.check_silent(tx, node.id, 100.0)
        tx.execute("SELECT 1")  # a guard goes to the database with the next statement
        still()

    verdict = asyncio.create_task(store._engine.write(judging))
    await still.reached()
    beating = asyncio.create_task(store.record_beats([Beat(node_id=node.id, seen_at=105.0)]))
    await until_a_backend_waits(store, beating)
    still.on.set()
    await asyncio.gather(verdict, beating)

    def too_late(tx: Tx) -> None:
        liveness.check_silent(tx, node.id, 100.0)

    with pytest.raises(Conflict):
        await store._engine.write(too_late)


async def test_an_audit_among_writers_finds_nothing_wrong(store: SqlStore) -> None:
    records = Records(store)
    await store.limit_installation(1000, now=1.0)
    leased = [await records.leased() for _ in range(8)]

    async def churn(number: int) -> None:
        for node in await records.created(leased[number], 4):
            doomed = await store.apply(lifecycle.condemn(node, reason=Reason.OPERATOR, now=3.0))
            await store.apply(lifecycle.confirm_gone(doomed, now=4.0))

    async def audit() -> list[int]:
        return [len(await store.audit(now=5.0)) for _ in range(20)]

    found, *_ = await asyncio.gather(audit(), *(churn(number) for number in range(8)))
    assert found == [0] * 20


async def test_text_that_postgresql_cant_hold_is_kept_as_well_as_can_be(store: SqlStore) -> None:
    await store.note("x", "odd", reason=None, detail="a\0b", now=1.0)
    (event,) = (await store.events(after=None, limit=9)).items
    assert event.detail == "a\ufffdb"
    assert await store.node_by_machine("a\0b", "m") is None


async def test_a_flood_of_work_delays_no_lease_and_no_beat(store: SqlStore) -> None:
    records = Records(store)
    operation = await records.leased()
    (node,) = await records.created(operation, 1)
    flood = [
        asyncio.create_task(store.note("x", "flood", reason=None, detail="", now=1.0)) for _ in range(1500)
    ]
    await asyncio.sleep(0)
    await store.renew("replica-a", [operation.fence], until=1e6)
    await store.lease_duty("pool", "replica-a", now=1.0, until=9.0)
    await store.record_beats([Beat(node_id=node.id, seen_at=9.0)])
    await store.lease("replica-a", now=1.0, until=9.0, limit=9)
    assert sum(each.done() for each in flood) < len(flood) / 2, "they passed what was there before them"
    await asyncio.gather(*flood)


async def test_claims_that_wait_together_get_each_their_own(store: SqlStore) -> None:
    records = Records(store)
    await records.idle(9)
    operations = [await records.leased() for _ in range(5)]
    found = await asyncio.gather(*(records.claim(each, 2) for each in operations))
    assert [len(each) for each in found] == [2, 2, 2, 2, 1], "first come, first served"
    for operation, got in zip(operations, found, strict=True):
        assert {node.operation_id for node in got} == {operation.id}
    taken = [node.id for got in found for node in got]
    assert len(dict.fromkeys(taken)) == 9
    told = [event for event in await whole_feed(store) if event.name == "claim"]
    assert sorted(event.entity_id for event in told) == sorted(taken)


async def test_of_claims_that_wait_together_only_the_one_that_lost_its_lease_is_refused(
    store: SqlStore,
) -> None:
    records = Records(store)
    await records.idle(2)
    taken, fence = await records.taken_over()
    before = replace(taken, epoch=fence.epoch)
    first, last = await records.leased(), await records.leased()
    found = await asyncio.gather(
        *(records.claim(each, 1) for each in (first, before, last)), return_exceptions=True
    )
    assert isinstance(found[1], LeaseLost)
    assert [len(each) for each in (found[0], found[2]) if not isinstance(each, BaseException)] == [1, 1]


async def test_a_claim_does_not_wait_for_the_operation_of_another_claim(
    store: SqlStore, address: str
) -> None:
    records = Records(store)
    await records.idle(3)
    first, held, last = [await records.leased() for _ in range(3)]
    with psycopg.connect(address) as other:
        other.execute("SELECT 1 FROM operations WHERE id = %s FOR UPDATE", (held.id,))
        claims = [asyncio.create_task(records.claim(each, 1)) for each in (first, held, last)]
        assert [len(await claims[place]) for place in (0, 2)] == [1, 1]
        await until_a_backend_waits(store, claims[1])
    assert len(await claims[1]) == 1
