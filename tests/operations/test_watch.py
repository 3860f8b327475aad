import asyncio
from typing import cast

import pytest

from muster.domain.deadlines import Limits, Watch
from muster.domain.errors import StoreUnavailable
from muster.operations.boot_history import BootHistory
from muster.operations.watch import TICK_EVERY, WatchTracker
from muster.ports.store import Store
from tests.domain.builders import template
from tests.operations.test_single_flight import ManualClock


class SlowStore:
    """Counts how often it is asked. While `gate` is closed, it thinks."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self.gate = asyncio.Event()
        self.broken = False

    async def watch(self, *, now: float, gap: float, grace: float = 0.0, beat: float | None = None) -> Watch:
        self.asked.append(now)
        await self.gate.wait()
        if self.broken:
            raise StoreUnavailable("cannot tick: the store is away")
        return Watch(since=now)

    async def boots(self, _template: str, _revision: int) -> tuple[()]:
        self.asked.append(0.0)
        await self.gate.wait()
        return ()


class Counted:
    def __init__(self) -> None:
        self.store = SlowStore()
        self.clock = ManualClock()
        store = cast(Store, self.store)
        self.watch_tracker = WatchTracker(store, self.clock, Limits())
        self.learning = BootHistory(store, self.clock, Limits())


async def test_those_who_look_at_one_moment_tick_once() -> None:
    counted = Counted()
    looks = [asyncio.create_task(counted.watch_tracker.look()) for _ in range(50)]
    await asyncio.sleep(0)
    looks[0].cancel()
    counted.store.gate.set()
    seen = await asyncio.gather(*looks[1:])
    assert counted.store.asked == [100.0]
    assert {watch.since for watch in seen} == {100.0}


async def test_a_look_does_not_join_a_tick_that_began_before_everything_stood_still() -> None:
    counted = Counted()
    before = asyncio.create_task(counted.watch_tracker.look())
    await asyncio.sleep(0)
    counted.clock.time += TICK_EVERY
    after = asyncio.create_task(counted.watch_tracker.look())
    await asyncio.sleep(0)
    counted.store.gate.set()
    assert ((await before).since, (await after).since) == (100.0, 100.0 + TICK_EVERY)


async def test_a_tick_that_failed_is_not_kept() -> None:
    counted = Counted()
    counted.store.gate.set()
    counted.store.broken = True
    with pytest.raises(StoreUnavailable):
        await counted.watch_tracker.look()
    counted.store.broken = False
    assert (await counted.watch_tracker.look()).since == 100.0


async def test_those_who_ask_for_a_templates_boots_at_one_moment_read_them_once() -> None:
    counted = Counted()
    asking = [asyncio.create_task(counted.learning.boots(template())) for _ in range(50)]
    await asyncio.sleep(0)
    counted.store.gate.set()
    await asyncio.gather(*asking)
    assert len(counted.store.asked) == 1
