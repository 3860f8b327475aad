"""Machines that never say a word, and others who join in their name."""

from dataclasses import replace

import pytest

from muster_simulation.plan import FaultPlan, Level
from muster_simulation.simulate import simulate
from tests.simulation import BUSY

pytestmark = pytest.mark.timeout(BUSY)


@pytest.mark.parametrize("seed", range(2))
def test_an_impostors_join_breaks_the_silence_of_a_mute_machine(seed: int) -> None:
    plan = FaultPlan.draw(seed, Level.NONE)
    mute = replace(plan, nodes=replace(plan.nodes, mute=1.0, impostors=1.0))
    result = simulate(seed=seed, plan=mute, hours=0.2, replicas=1)
    assert result.injected["node: impostor"] and result.injected["node: mute"]
    assert result.ok, f"{result.broken}: {result.explanation}"
