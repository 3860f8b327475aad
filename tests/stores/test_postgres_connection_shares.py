"""What the database has for all replicas is shared among them: none keeps another from having any."""

import asyncio
from contextlib import AsyncExitStack

import psycopg
import pytest

from muster.domain.errors import StoreUnavailable
from muster.stores.sql import SqlStore
from muster.stores.sql.postgres import connections
from muster.stores.sql.postgres.connections import LOOK_EVERY, NO_ROOM, ConnectionFactory, Share
from muster.stores.sql.postgres.store import open_postgres
from tests.stores import postgres
from tests.stores.ids import CountingIds
from tests.stores.wire import Wire


class ManualClock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def held(share: Share, count: int) -> None:
    for _ in range(count):
        assert share.ask()
        share.entered()
        share.asked()


def closed(share: Share) -> int:
    """How many were to give theirs back."""
    count = 0
    while share.give_back():
        count += 1
    return count


def test_a_replica_that_is_refused_gives_a_part_back_and_asks_for_no_more() -> None:
    share = Share(12, monotonic=ManualClock())
    held(share, 8)
    assert share.ask()
    share.refused()
    share.asked()
    assert (share.allowed, closed(share), share.held) == (6, 2, 6)
    assert not share.ask()


def test_many_that_are_refused_at_once_count_as_one_refusal() -> None:
    share = Share(12, monotonic=ManualClock())
    held(share, 8)
    for _ in range(4):
        assert share.ask()
    for _ in range(4):
        share.refused()
        share.asked()
    assert share.allowed == 6


def test_the_last_one_is_kept_and_who_has_none_gives_nothing() -> None:
    share = Share(4, monotonic=ManualClock())
    share.refused()
    assert share.allowed == 4
    held(share, 1)
    share.refused()
    assert (share.allowed, closed(share)) == (1, 0)


def test_more_is_taken_step_by_step_until_there_is_all_that_was_wanted() -> None:
    clock = ManualClock()
    share = Share(12, monotonic=clock)
    held(share, 4)
    share.refused()
    allowed = []
    for _ in range(12):
        assert not share.look(), "a replica without one asks for it"
        allowed.append(share.allowed)
        clock.now += 2 * LOOK_EVERY
    assert allowed == [3, 4, 5, 6, 7, 8, 10, 12, 12, 12, 12, 12]


def test_a_replica_that_has_all_looks_now_and_then_whether_others_have_room() -> None:
    clock = ManualClock()
    share = Share(4, monotonic=clock)
    held(share, 4)
    assert not share.look()
    clock.now += 2 * LOOK_EVERY
    assert [share.look(), share.look()] == [True, False]
    share.refused()
    assert closed(share) == 1


async def test_a_replica_that_comes_to_a_full_database_gets_connections_from_those_that_have_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "LOOK_EVERY", 1.0)
    monkeypatch.setattr(connections, "BACKOFF_MOST", 0.3)
    address, role = limited()
    wires = [Wire(postgres.directory()) for _ in range(3)]
    async with AsyncExitStack() as stack:
        stores: list[SqlStore] = []
        for wire in wires:
            stack.callback(wire.close)
            url = wire.url(address).replace("postgres@", f"{role}@")
            stores.append(open_postgres(url, ids=CountingIds(), connections=8))
            stack.push_async_callback(stores[-1].close)
        with psycopg.connect(address, autocommit=True) as admin:
            for wire in wires:
                wire.cut()
            while in_use(admin, role):
                admin.execute("SELECT pg_sleep(0.01)")
            admin.execute(f"ALTER ROLE {role} CONNECTION LIMIT 9".encode())
            for wire in wires[:2]:
                wire.mend()
            async with asyncio.timeout(30.0):
                # A caller that needs a connection notices that it was lost, and makes it again.
                while in_use(admin, role) < 9:
                    await asyncio.gather(*(works(store) for store in stores[:2] * 12))
            with pytest.raises(StoreUnavailable) as refused:
                ConnectionFactory(address.replace("postgres@", f"{role}@")).open()
            assert refused.value.why == NO_ROOM
            wires[2].mend()
            await asyncio.gather(*(works(store) for store in stores))
            # All at once, and for long enough that a share that grows again has met the others.
            for _ in range(30):
                await asyncio.gather(*(works(store) for store in stores))
                await asyncio.sleep(0.1)


def limited() -> tuple[str, str]:
    """A store, and a user of it whose connections can be limited."""
    address = postgres.fresh()
    role = f"sharing_{address.split('/')[3].split('?')[0]}"
    with psycopg.connect(address, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {role} LOGIN".encode())
        admin.execute(f"GRANT ALL ON SCHEMA public TO {role}".encode())
        for kind in ("TABLES", "SEQUENCES"):
            admin.execute(f"GRANT ALL ON ALL {kind} IN SCHEMA public TO {role}".encode())
    return address, role


def in_use(admin: psycopg.Connection[tuple[object, ...]], role: str) -> int:
    sql = "SELECT count(*) FROM pg_stat_activity WHERE usename = %s"
    row = admin.execute(sql, (role,)).fetchone()
    return int(str(row[0])) if row else 0


async def works(store: SqlStore) -> None:
    """It reads and writes, as soon as it has connections for both."""
    async with asyncio.timeout(30.0):
        while True:
            try:
                await store.installation()
                await store.note("x", "y", reason=None, detail="", now=1.0)
            except StoreUnavailable:
                await asyncio.sleep(0.05)
            else:
                return
