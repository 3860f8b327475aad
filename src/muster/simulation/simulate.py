"""One seed, from plan to verdict: the simulation as a function."""

import gc
import logging
from collections.abc import Callable

from muster.simulation.invariants.broken import Broken
from muster.simulation.loop import VirtualLoop
from muster.simulation.plan import FaultPlan, Level
from muster.simulation.summary import Result, summarize
from muster.simulation.world import Alarm, World

HOURS = 0.25
"""Of trouble, per seed, unless somebody says otherwise."""


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
    try:
        world, broken = loop.run_until_complete(_run(drawn, alarm, hours=hours, replicas=replicas))
        virtual = loop.time()
    finally:
        loop.close()
        if alarm.world is not None:
            alarm.world.close()
        logger.removeHandler(handler)
        logger.propagate, logger.level = before
        if collected:
            gc.enable()
    return summarize(
        world, hours=hours, replicas=replicas, broken=broken, virtual=virtual, wall=wall() - started
    )


async def _run(plan: FaultPlan, alarm: Alarm, *, hours: float, replicas: int) -> tuple[World, Broken | None]:
    world = World(plan, replicas=replicas)
    alarm.world = world
    try:
        await world.run(hours)
    except Broken as broken:
        return world, broken
    return world, world.judge.broken
