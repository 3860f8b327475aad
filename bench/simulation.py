"""Simulated hours per second of CPU time with 200 warm nodes, while callers come and go.

CPU time, because the machine may be shared. The load of the machine still slows it: compare with the floor.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

from bench import Figure
from muster_simulation.loop import run as run_virtual
from muster_simulation.plan import FaultPlan
from muster_simulation.simulate import simulate

NODES = 200
HOURS = 0.5
LEAST = 3.0
"""Simulated hours per CPU second that a night of thousands of days with so many nodes takes."""


async def measure() -> Sequence[Figure]:
    # The virtual loop needs a thread that runs no other loop.
    return await asyncio.to_thread(_measure)


def _measure() -> Sequence[Figure]:
    polling = FaultPlan.crowd(NODES)
    streaming = replace(polling, nodes=replace(polling.nodes, unstreamed=0.0))
    return [
        _figure(f"simulation with {NODES} nodes", polling),
        _figure(f"simulation with {NODES} nodes that hear by streams", streaming),
    ]


def _figure(name: str, plan: FaultPlan) -> Figure:
    started = time.process_time()
    result = simulate(seed=1, hours=HOURS, replicas=1, plan=plan)
    seconds = time.process_time() - started
    assert result.ok, result.explanation
    hours = result.virtual_seconds / 3600.0
    return Figure(
        name=name,
        value=hours / seconds,
        unit="hours per CPU s",
        floor=_floor(hours),
        limit=LEAST,
        note="floor: the same beats as bare timers of the virtual loop, CPU time too",
    )


def _floor(hours: float) -> float:
    """Return how fast the virtual loop passes time if nodes only beat."""

    async def beat() -> None:
        for _ in range(int(hours * 3600.0 / 5.0)):
            await asyncio.sleep(5.0)

    async def everybody() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(NODES):
                group.create_task(beat())

    started = time.process_time()
    run_virtual(everybody())
    return hours / (time.process_time() - started)
