"""Many worlds, every promise checked after every event. Chunked, so that workers share them.

Their number is what a change can wait for. That so few of them find what is broken, `test_defects` proves.
`make soak` tries more of each, and `make simulate` as many as there is time for.
"""

from typing import Any

import pytest

from muster_simulation.plan import STORMS, Level
from muster_simulation.simulate import simulate
from muster_simulation.summary import Result
from tests.simulation import BUSY

CHUNK = 3
HOURS = 0.2
SHORTER = {Level.CROWD: 0.1}
"""A crowd does in half of the time what keeps the others busy for all of it."""
pytestmark = pytest.mark.timeout(BUSY)


def chunks(first: int, count: int, *, soak: int) -> list[Any]:
    """`soak`: how many more seeds `make soak` tries."""
    found = [range(start, start + CHUNK) for start in range(first, first + count + soak, CHUNK)]
    late = [pytest.param(each, marks=pytest.mark.soak) for each in found[count // CHUNK :]]
    return [*found[: count // CHUNK], *late]


def check(results: list[Result]) -> None:
    failed = [result for result in results if not result.ok]
    told = [
        "\n".join((f"{result.broken}: {result.explanation}", *result.last, result.replay))
        for result in failed
    ]
    assert not failed, "\n\n".join(told)


@pytest.mark.parametrize("seeds", chunks(0, 30, soak=270), ids=str)
def test_heavy_faults_break_no_promise(seeds: range) -> None:
    check([simulate(seed=seed, faults="heavy", hours=HOURS, replicas=1 + seed % 3) for seed in seeds])


@pytest.mark.parametrize("storm", STORMS)
@pytest.mark.parametrize("seeds", chunks(30_000, 3, soak=27), ids=str)
def test_no_storm_breaks_a_promise(seeds: range, storm: Level) -> None:
    hours = SHORTER.get(storm, HOURS)
    check([simulate(seed=seed, faults=storm, hours=hours, replicas=2 + seed % 2) for seed in seeds])


@pytest.mark.parametrize("seeds", chunks(10_000, 12, soak=48), ids=str)
def test_light_faults_break_no_promise(seeds: range) -> None:
    check([simulate(seed=seed, faults="light", hours=HOURS, replicas=1 + seed % 3) for seed in seeds])


@pytest.mark.parametrize("seeds", chunks(20_000, 6, soak=24), ids=str)
def test_without_faults_no_fitting_request_is_refused(seeds: range) -> None:
    results = [simulate(seed=seed, faults="none", hours=HOURS, replicas=1 + seed % 3) for seed in seeds]
    check(results)
    blameless = ("cap_reached", "above_cap", "cancelled", "deadline_exceeded", "retired")
    for result in results:
        strange = [
            key for key in result.operations if "(" in key and not any(why in key for why in blameless)
        ]
        assert not strange, f"{result.replay}: {strange}"


def test_a_run_does_something() -> None:
    """A simulation in which nothing happens keeps every promise."""
    result = simulate(seed=1, faults="light", hours=1.0, replicas=2)
    assert result.operations.get("provision succeeded", 0) >= 5
    assert result.nodes["handed over"] >= 5
    assert result.nodes["made"] >= 5
    assert result.injected
