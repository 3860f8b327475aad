"""Wake-ups between replicas on one database."""

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest

from muster.ports.wakeups import ACCESS, Listener
from muster.stores.sql.postgres import connections
from muster.stores.sql.postgres import wakeups as shared
from muster.stores.sql.postgres.connections import ConnectionFactory
from muster.stores.sql.postgres.wakeups import SharedWakeups
from muster.stores.wakeups import LocalListener
from tests.stores import postgres
from tests.stores.wire import Wire

TOPIC = "node/n-1"


@pytest.fixture(scope="module")
def address() -> str:
    return postgres.fresh()


@pytest.fixture
async def pair(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[SharedWakeups, SharedWakeups]]:
    monkeypatch.setattr(shared, "AGAIN", 0.05)
    here, there = (SharedWakeups(ConnectionFactory(address), name=name) for name in ("peer-1", "peer-2"))
    for each in (here, there):
        each.start()
        await asyncio.wait_for(each.hearing.wait(), 30.0)
    yield here, there
    for each in (here, there):
        await each.close()


async def woken(listener: Listener, sender: SharedWakeups, topic: str) -> None:
    """Notify until it is heard: a hint may be lost with its connection."""
    async with asyncio.timeout(30.0):
        while True:
            sender.notify(topic)
            if await listener.wait(0.5):
                return


async def test_a_topic_wakes_the_listeners_of_the_other_replica_and_only_those(
    pair: tuple[SharedWakeups, SharedWakeups],
) -> None:
    here, there = pair
    wanted, unwanted = there.listen((TOPIC, ACCESS)), there.listen(("node/n-2",))
    here.notify(TOPIC)
    assert await wanted.wait(30.0)
    here.notify(ACCESS)
    assert await wanted.wait(30.0)
    assert not await unwanted.wait(0.0)


async def test_a_replica_sends_and_hears_on_one_connection_and_its_own_notices_wake_once(
    address: str, pair: tuple[SharedWakeups, SharedWakeups], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = pair
    woken: list[str] = []
    wake = LocalListener.wake

    def noted(self: LocalListener) -> None:
        woken.append(self.topics[0])
        wake(self)

    monkeypatch.setattr(LocalListener, "wake", noted)
    _own, other, answer = here.listen((TOPIC,)), there.listen((TOPIC,)), here.listen((ACCESS,))
    here.notify(TOPIC)
    assert await other.wait(30.0)
    there.notify(ACCESS)  # sent later, so the first notice has come back by then
    assert await answer.wait(30.0)
    assert woken == [TOPIC, TOPIC, ACCESS], "once here, once there, then the answer"
    with psycopg.connect(address, autocommit=True) as admin:
        (connected,) = admin.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchone() or (None,)
    assert connected == len(pair)


async def test_more_topics_than_one_notice_holds_all_arrive(
    pair: tuple[SharedWakeups, SharedWakeups],
) -> None:
    here, there = pair
    topics = [f"operation/op-{number:020}" for number in range(1000)]
    listeners = [there.listen((topic,)) for topic in topics]
    for topic in topics:
        here.notify(topic)
    assert all(await asyncio.gather(*(listener.wait(30.0) for listener in listeners)))


async def test_a_replica_that_lost_its_connections_hears_and_is_heard_again(
    address: str, pair: tuple[SharedWakeups, SharedWakeups]
) -> None:
    here, there = pair
    with psycopg.connect(address, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    await woken(there.listen((TOPIC,)), here, TOPIC)
    await woken(here.listen((TOPIC,)), there, TOPIC)


async def test_a_replica_whose_database_was_away_hears_and_is_heard_again(
    address: str, pair: tuple[SharedWakeups, SharedWakeups], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "BACKOFF_MOST", 0.1)
    wire = Wire(postgres.directory())
    cut = SharedWakeups(ConnectionFactory(wire.url(address)), name="peer-3")
    cut.start()
    try:
        await asyncio.wait_for(cut.hearing.wait(), 30.0)
        wire.cut()
        listener = pair[0].listen((TOPIC,))
        for _ in range(4):
            cut.notify(TOPIC)
            assert not await listener.wait(0.2), "it has no way to the others"
        wire.mend()
        await woken(listener, cut, TOPIC)
        await woken(cut.listen((TOPIC,)), pair[0], TOPIC)
    finally:
        await cut.close()
        wire.close()
