"""A backup that is taken while others write is a store: whole, balanced, and it goes on from there."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from muster.domain import node as lifecycle
from muster.domain.errors import CursorLost
from muster.domain.events import Event
from muster.stores.sql import SqlStore, open_sqlite, sqlite
from muster.stores.sql.postgres.store import open_postgres
from tests.contracts.store_contract.bookkeeping import assert_books_balance, whole_feed
from tests.contracts.store_contract.records import Records
from tests.stores import postgres
from tests.stores.ids import CountingIds


async def _writing(store: SqlStore, begun: asyncio.Event, stop: asyncio.Event) -> None:
    records = Records(store)
    for number in range(100_000):
        (node,) = await records.created(await records.leased(), 1)
        await store.apply(lifecycle.joined(node, boot_id="b", now=3.0))
        if number == 2:
            begun.set()
        if stop.is_set():
            return


async def test_a_copy_of_sqlites_file_is_a_store(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path / "muster.db", ids=CountingIds())
    begun, stop = asyncio.Event(), asyncio.Event()
    writing = asyncio.create_task(_writing(store, begun, stop))
    await begun.wait()
    await asyncio.to_thread(sqlite.back_up, tmp_path / "muster.db", tmp_path / "copy.db")
    stop.set()
    await writing
    await _goes_on(store, open_sqlite(tmp_path / "copy.db", ids=CountingIds()))


async def test_a_dump_of_a_database_is_a_store(tmp_path: Path) -> None:
    address, other = postgres.fresh(), postgres.empty()
    store = open_postgres(address, ids=CountingIds(), connections=4)
    begun, stop = asyncio.Event(), asyncio.Event()
    writing = asyncio.create_task(_writing(store, begun, stop))
    await begun.wait()
    dump = tmp_path / "muster.dump"
    await asyncio.to_thread(_run, "pg_dump", "--format=custom", f"--file={dump}", address)
    stop.set()
    await writing
    await asyncio.to_thread(_run, "pg_restore", "--exit-on-error", f"--dbname={other}", str(dump))
    await _goes_on(store, open_postgres(other, ids=CountingIds(), connections=4))


async def _places_of_what_was_lost_are_refused(original: SqlStore, copy: SqlStore) -> None:
    common = (await copy.last_events(limit=2)).items[0]
    await original.note("x", "lost with the original", reason=None, detail="", now=8.0)
    lost = (await original.last_events(limit=1)).next
    for _ in range(len(await whole_feed(original)) - len(await whole_feed(copy)) + 2):
        with pytest.raises(CursorLost):
            await copy.events(after=lost, limit=10)
        await copy.note("x", "after the restore", reason=None, detail="", now=9.0)
    known = (await original.events(after=None, limit=len(await _until(original, common)))).next
    assert (await copy.events(after=known, limit=10)).items[0].name == "restored"


async def _until(store: SqlStore, last: Event) -> list[Event]:
    feed = await whole_feed(store)
    return feed[: feed.index(last) + 1]


def _run(program: str, *given: str) -> None:
    subprocess.run([postgres.program(program), *given], check=True)


async def _goes_on(original: SqlStore, copy: SqlStore) -> None:
    try:
        assert await copy.installation() == await original.installation()
        then, now = await whole_feed(copy), await whole_feed(original)
        assert 0 < len(then) <= len(now)
        assert then == now[: len(then)]
        await assert_books_balance(copy)
        await copy.note("x", "restored", reason=None, detail="", now=9.0)
        after = await whole_feed(copy)
        assert [event.name for event in after[len(then) :]] == ["restored"]
        assert after[-1].id not in {event.id for event in then}
        await _places_of_what_was_lost_are_refused(original, copy)
    finally:
        await original.close()
        await copy.close()
