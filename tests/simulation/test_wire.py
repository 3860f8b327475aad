"""A stream as a simulated agent hears it: each line at once, in order, until it breaks or is silent."""

import asyncio

import pytest

from muster.domain.desired_state import Desired, Directive
from muster_simulation.life import Life
from muster_simulation.loop import run
from muster_simulation.wire import Silent, Unreachable, Wire

WITHIN = 30.0


def line(version: int) -> Desired:
    return Desired(
        version=version,
        directive=Directive.STAY,
        assignment_id=None,
        run=None,
        dead_man=300.0,
        commanded=False,
    )


class Listener:
    """An agent that only listens. Notes which line it heard when, and when and how its stream ended."""

    def __init__(self) -> None:
        self.life = Life("agent")
        self.reachable = True
        self.heard: list[tuple[float, int]] = []
        self.lost = 0
        self.end: tuple[float, type[Exception]] | None = None
        self.wire = Wire(reachable=lambda: self.reachable, lost=self._lose, hear=self._hear, life=self.life)
        self.task = self.life.spawn(self._listen())

    async def _listen(self) -> None:
        try:
            await self.wire.follow(WITHIN)
        except Unreachable as error:
            self.end = (_now(), type(error))

    def _hear(self, heard: Desired) -> None:
        self.heard.append((_now(), heard.version))

    def _lose(self) -> None:
        self.lost += 1


def _now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize("lines", [(), (10.0,), (10.0, 35.0, 64.5)])
def test_a_stream_is_silent_so_long_after_its_last_line(lines: tuple[float, ...]) -> None:
    async def main() -> None:
        listener = Listener()
        for number, at in enumerate(lines):
            asyncio.get_running_loop().call_at(at, listener.wire.deliver, line(number))
        await asyncio.sleep(1000.0)
        assert listener.heard == [(at, number) for number, at in enumerate(lines)]
        assert listener.end == (max(lines, default=0.0) + WITHIN, Silent)
        assert listener.wire.heard is bool(lines)

    run(main())


def test_a_frozen_agent_hears_what_came_meanwhile_when_it_wakes_and_only_then_counts_silence() -> None:
    async def main() -> None:
        listener = Listener()
        await asyncio.sleep(1.0)
        listener.life.pause(101.0)
        await asyncio.sleep(9.0)
        listener.wire.deliver(line(1))
        await asyncio.sleep(10.0)
        listener.wire.deliver(line(2))
        await asyncio.sleep(70.0)
        assert listener.heard == []
        await asyncio.sleep(20.0)
        assert listener.heard == [(101.0, 1), (101.0, 2)]
        await asyncio.sleep(100.0)
        assert listener.end == (101.0 + WITHIN, Silent)

    run(main())


def test_what_does_not_reach_the_agent_is_lost_and_ends_no_silence() -> None:
    async def main() -> None:
        listener = Listener()
        await asyncio.sleep(10.0)
        listener.reachable = False
        listener.wire.deliver(line(1))
        await asyncio.sleep(100.0)
        assert (listener.heard, listener.lost) == ([], 1)
        assert listener.end == (WITHIN, Silent)

    run(main())


def test_the_end_comes_after_the_lines_before_it_and_nothing_is_heard_after_it() -> None:
    async def main() -> None:
        listener = Listener()
        await asyncio.sleep(1.0)
        listener.wire.deliver(line(1))
        listener.wire.end(Unreachable("connection broke"))
        await asyncio.sleep(1.0)
        listener.wire.close()
        listener.wire.deliver(line(2))
        await asyncio.sleep(100.0)
        assert listener.heard == [(1.0, 1)]
        assert listener.end == (1.0, Unreachable)

    run(main())
