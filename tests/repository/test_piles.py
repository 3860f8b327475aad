from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.piles import COMPUTING, QUICK, SHARED, SLOW, WAITING, is_slow, piled

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Named:
    nodeid: str


def named(file: str, count: int) -> list[Named]:
    return [Named(f"{file}::test_{number}") for number in range(count)]


WAIT = named("tests/e2e/test_a.py", 3) + named("tests/e2e/test_b.py", 2) + named("tests/cli/test_c.py", 1)
COMPUTE = named("tests/simulation/test_seeds.py", 8)
MANY = named("tests/domain/test_node.py", 400)


def stretches(tests: list[Named], workers: int) -> list[list[Named]]:
    """As pytest-xdist cuts them: an equal share of what is left, for one worker after the other."""
    cut: list[list[Named]] = []
    for remaining in range(workers, 0, -1):
        share = len(tests) // remaining
        cut.append(tests[:share])
        tests = tests[share:]
    return cut


@pytest.mark.parametrize("workers", [0, 1, 2, 3, 4, 7, 500])
def test_every_test_is_in_one_pile(workers: int) -> None:
    tests = MANY + WAIT + COMPUTE
    assert sorted(each.nodeid for each in piled(tests, workers)) == sorted(each.nodeid for each in tests)


def test_one_process_runs_them_as_they_are_written() -> None:
    assert piled(MANY + WAIT, 1) == MANY + WAIT


def test_each_worker_begins_with_its_share_of_the_long_ones() -> None:
    first, second, third, fourth = stretches(piled(MANY + WAIT + COMPUTE, 4), 4)
    assert first[:4] == WAIT[:3] + WAIT[5:]  # a file stays together
    assert third[:2] == WAIT[3:5]
    assert (second[:4], fourth[:4]) == (COMPUTE[::2], COMPUTE[1::2])
    assert all(each in MANY for each in first[4:] + second[4:] + third[2:] + fourth[4:])


def test_a_folder_that_shares_a_browser_stays_together() -> None:
    seen = [test for file in "abc" for test in named(f"{SHARED[0]}test_{file}.py", 2)]
    assert stretches(piled(seen + MANY, 4), 4)[0][:6] == seen


def test_few_tests_for_many_workers_are_no_trouble() -> None:
    assert piled([], 4) == []
    assert piled(MANY[:2], 4) == MANY[:2]


def test_every_place_that_is_named_exists() -> None:
    for name in WAITING + COMPUTING + SLOW + QUICK:
        place, _, test = name.partition("::")
        files = list(ROOT.glob(f"{place}*")) if not place.endswith("/") else [ROOT / place]
        assert files and all(each.exists() for each in files), name
        assert f"def {test.partition('[')[0]}" in files[0].read_text() if test else True, name


def test_what_is_quick_in_a_slow_place_is_run_by_make_test() -> None:
    assert all(name.startswith(SLOW) and not is_slow(name) for name in QUICK)
    assert all(map(is_slow, SLOW))
    assert not is_slow("tests/domain/test_node.py::test_a_claim")
