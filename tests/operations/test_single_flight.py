import asyncio

import pytest

from muster.domain.errors import StoreUnavailable
from muster.single_flight import SingleFlight


class ManualClock:
    def __init__(self) -> None:
        self.time = 100.0

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds


class CountedSource:
    """Counts how often it is asked. While `gate` is closed, it thinks."""

    def __init__(self) -> None:
        self.asked = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.broken = False

    async def find(self) -> int:
        self.asked += 1
        await self.gate.wait()
        if self.broken:
            raise StoreUnavailable("cannot look: the store is away")
        return self.asked


KEEP = 5.0


async def test_those_who_ask_together_share_one_search() -> None:
    shared, source = SingleFlight[str, int](ManualClock(), keep=KEEP), CountedSource()
    source.gate.clear()
    asking = [asyncio.create_task(shared.get("a", source.find)) for _ in range(20)]
    await asyncio.sleep(0)
    source.gate.set()
    assert await asyncio.gather(*asking) == [1] * 20


@pytest.mark.parametrize(("passed", "again"), [(KEEP - 0.001, 1), (KEEP, 2), (KEEP + 0.001, 2), (-1.0, 2)])
async def test_an_answer_is_kept_for_its_time_and_no_longer(passed: float, again: int) -> None:
    clock, source = ManualClock(), CountedSource()
    shared = SingleFlight[str, int](clock, keep=KEEP)
    assert await shared.get("a", source.find) == 1
    clock.time += passed
    assert await shared.get("a", source.find) == again


async def test_another_key_is_another_question() -> None:
    shared, source = SingleFlight[str, int](ManualClock(), keep=KEEP), CountedSource()
    assert [await shared.get(key, source.find) for key in ("a", "b", "a")] == [1, 2, 1]


async def test_an_error_is_not_kept() -> None:
    shared, source = SingleFlight[str, int](ManualClock(), keep=KEEP), CountedSource()
    source.broken = True
    with pytest.raises(StoreUnavailable):
        await shared.get("a", source.find)
    source.broken = False
    assert await shared.get("a", source.find) == 2


async def test_a_caller_who_leaves_takes_nothing_away_from_the_others() -> None:
    shared, source = SingleFlight[str, int](ManualClock(), keep=KEEP), CountedSource()
    source.gate.clear()
    leaving, staying = (asyncio.create_task(shared.get("a", source.find)) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    source.gate.set()
    assert await staying == 1
    assert source.asked == 1


async def test_answers_that_are_not_asked_for_again_are_dropped() -> None:
    clock, source = ManualClock(), CountedSource()
    shared = SingleFlight[str, int](clock, keep=KEEP)
    for number in range(100):
        await shared.get(f"key-{number}", source.find)
        clock.time += 1.0
    assert len(shared._answers) <= KEEP + 1


async def test_who_asks_for_a_later_answer_gets_one_that_began_after_the_call() -> None:
    shared, source = SingleFlight[str, int](), CountedSource()
    source.gate.clear()
    first = asyncio.create_task(shared.get_later("a", source.find))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert source.asked == 1
    later = [asyncio.create_task(shared.get_later("a", source.find)) for _ in range(3)]
    await asyncio.sleep(0)
    source.gate.set()
    assert await first == 1
    assert await asyncio.gather(*later) == [2, 2, 2]
    assert not shared._waiting
