"""In which order workers run the tests: long ones first, those that wait beside those that compute.

pytest-xdist cuts the collection into one stretch per worker; who is done takes from the end of another's. So
the order is a pile per worker, with its share of the long tests on top and of the many quick ones below.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Protocol, TypeVar

WAITING = ("tests/e2e/", "tests/browser/", "tests/cli/", "tests/sdk/")
"""Their processes mostly wait: as many again can run beside them."""
COMPUTING = ("tests/simulation/", "tests/operations/", "tests/contracts/test_claim_matching")
SHARED = ("tests/browser/",)
"""All of the folder shares what is costly to set up; elsewhere a file does, at most."""


class Test(Protocol):
    @property
    def nodeid(self) -> str: ...


T = TypeVar("T", bound=Test)


def piled(tests: Sequence[T], workers: int) -> list[T]:
    """The same tests in the order in which so many workers should get them."""
    if workers < 2:
        return list(tests)
    piles: list[list[T]] = [[] for _ in range(workers)]
    for number, together in enumerate(_sharing([test for test in tests if _is(test, WAITING)])):
        piles[number * 2 % workers].extend(together)
    for number, test in enumerate(test for test in tests if _is(test, COMPUTING)):
        piles[(number * 2 + 1) % workers].append(test)
    quick = [test for test in tests if not _is(test, WAITING + COMPUTING)]
    for number, pile in enumerate(piles):
        waiting_for_theirs = piles[number:]
        left = len(quick) + sum(map(len, waiting_for_theirs))
        share = max(0, left // len(waiting_for_theirs) - len(pile))
        pile.extend(quick[:share])
        del quick[:share]
    return [test for pile in piles for test in pile] + quick


def _is(test: Test, kind: tuple[str, ...]) -> bool:
    return test.nodeid.startswith(kind)


def _sharing(tests: Sequence[T]) -> list[list[T]]:
    """Tests that follow each other and may share a fixture."""

    def place(test: T) -> str:
        file = test.nodeid.partition("::")[0]
        return next((folder for folder in SHARED if file.startswith(folder)), file)

    return [list(group) for _, group in groupby(tests, key=place)]
