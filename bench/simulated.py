"""Simulated hours per second with 200 nodes that stand warm, while callers come and go."""

import asyncio
import time
from collections.abc import Sequence

from bench import Figure
from muster.simulation.loop import run as run_virtual
from muster.simulation.plan import FaultPlan
from muster.simulation.simulate import simulate

NODES = 200
HOURS = 0.5


async def measure() -> Sequence[Figure]:
    # The virtual loop needs a thread that runs no other loop.
    return await asyncio.to_thread(_measure)


def _measure() -> Sequence[Figure]:
    started = time.perf_counter()
    result = simulate(seed=1, hours=HOURS, replicas=1, plan=FaultPlan.crowd(NODES))
    seconds = time.perf_counter() - started
    assert result.ok, result.explanation
    hours = result.virtual_seconds / 3600.0
    return [
        Figure(
            name=f"simulation with {NODES} nodes",
            value=hours / seconds,
            unit="hours/s",
            floor=_floor(hours),
            note="floor: the same beats as bare timers of the virtual loop",
        )
    ]


def _floor(hours: float) -> float:
    """How fast the virtual loop passes the time if nodes do nothing but beat into the void."""

    async def beat() -> None:
        for _ in range(int(hours * 3600.0 / 5.0)):
            await asyncio.sleep(5.0)

    async def everybody() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(NODES):
                group.create_task(beat())

    started = time.perf_counter()
    run_virtual(everybody())
    return hours / (time.perf_counter() - started)
