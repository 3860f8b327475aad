"""One seed, from plan to verdict: the simulation as a function."""

import gc
import logging
from collections.abc import Callable

from muster_simulation.invariants.broken import Broken
from muster_simulation.loop import Deadlock, Livelock, VirtualLoop
from muster_simulation.plan import FaultPlan, Level
from muster_simulation.summary import Result, summarize
from muster_simulation.world import Alarm, World

HOURS = 0.25
"""Hours of trouble per seed, unless the caller says otherwise."""
TURNS = 20_000
"""Callbacks at one instant of the loop. More than that is a task that wakes itself."""


def simulate(
    *,
    seed: int,
    faults: Level | str = Level.HEAVY,
    hours: float = HOURS,
    replicas: int = 2,
    plan: FaultPlan | None = None,
    wall: Callable[[], float] = lambda: 0.0,
) -> Result:
    """Run one seed. The same arguments give the same trace, wherever and whenever.

    `wall` tells the real time, for the figures only.
    """
    started = wall()
    drawn = plan or FaultPlan.draw(seed, Level(faults))
    alarm = Alarm()
    handler = alarm.listener()
    logger = logging.getLogger("muster")
    before = (logger.propagate, logger.level)
    logger.addHandler(handler)
    logger.propagate = False
    logger.setLevel(logging.ERROR)
    # Nothing here makes garbage that must go at once, and collecting costs a tenth of a run.
    collected = gc.isenabled()
    gc.disable()
    loop = VirtualLoop()
    loop.turns_per_instant = TURNS
    broken: Broken | None
    try:
        broken = loop.run_until_complete(_run(drawn, alarm, hours=hours, replicas=replicas))
    except (Deadlock, Livelock) as error:
        broken = Broken("time_passes", str(error))
    finally:
        virtual = loop.time()
        loop.close()
        if alarm.world is not None:
            alarm.world.close()
        logger.removeHandler(handler)
        logger.propagate = before[0]
        logger.setLevel(before[1])  # not by hand: children remember what is enabled
        if collected:
            gc.enable()
    if alarm.world is None:
        raise RuntimeError("a run makes its world first")
    return summarize(
        alarm.world, hours=hours, replicas=replicas, broken=broken, virtual=virtual, wall=wall() - started
    )


async def _run(plan: FaultPlan, alarm: Alarm, *, hours: float, replicas: int) -> Broken | None:
    world = World(plan, replicas=replicas)
    alarm.world = world
    try:
        await world.run(hours)
    except Broken as broken:
        return broken
    return world.judge.broken
