"""Seeds that found something stay found."""

from pathlib import Path

import pytest

from muster_simulation.simulate import simulate
from tests.simulation import BUSY

pytestmark = pytest.mark.timeout(BUSY)
LIST = Path(__file__).parent / "regressions.txt"


def lines() -> list[tuple[int, str, float, int, str]]:
    rows = [line.split(maxsplit=4) for line in LIST.read_text().splitlines()]
    return [
        (int(row[0]), row[1], float(row[2]), int(row[3]), row[4]) for row in rows if row and row[0] != "#"
    ]


@pytest.mark.parametrize(("seed", "faults", "hours", "replicas", "found"), lines())
def test_a_seed_that_once_broke_a_promise_keeps_it(
    seed: int, faults: str, hours: float, replicas: int, found: str
) -> None:
    result = simulate(seed=seed, faults=faults, hours=hours, replicas=replicas)
    assert result.ok, f"{result.replay}: {result.broken}: {result.explanation} (once: {found})"
