"""When a line is due on a node's stream."""

import asyncio

import pytest

from muster.domain.ids import NodeId
from muster.enrolment import streams
from muster.enrolment.streams import Cause, Streams
from muster.stores.wakeups import LocalWakeups
from tests.stores.ids import CountingIds


class _Standing:
    """A clock behind the loop's: no timer of the loop is on time by it."""

    def now(self) -> float:
        return 1000.0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("streams only wait to be woken")


async def test_a_timer_that_fires_early_costs_one_look_and_gives_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "SILENT_MOST", 0.01)
    looks: list[str] = []

    async def look() -> str:
        looks.append("stay")
        return "stay"

    opened = Streams(LocalWakeups(), _Standing(), CountingIds()).open(NodeId("node-1"))
    with opened as stream:
        await stream.first(look, str)
        async with asyncio.timeout(5):
            assert await stream.next(look, str, lambda: False) == (Cause.ALIVE, "stay")
    assert len(looks) == 2
