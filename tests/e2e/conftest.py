import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.nursery import Nursery
from tests.e2e.site import Site

if sys.platform != "linux":
    collect_ignore_glob = ["test_*.py"]  # they look into /proc and hold processes by their pidfd

_PASSED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[_PASSED] = report.passed
    return report


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    with Nursery() as nursery:
        yield nursery


@pytest.fixture
def make_site(
    tmp_path: Path, nursery: Nursery, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Site]]:
    """Sites that are verified at the end of a test that passed, and cleaned up whatever happened."""
    made: list[Site] = []

    def make(name: str = "site", **options: Any) -> Site:
        (tmp_path / name).mkdir()
        made.append(Site(tmp_path / name, nursery, **options))
        return made[-1]

    try:
        yield make
        if request.node.stash.get(_PASSED, False):
            for site in made:
                site.verify()
    finally:
        for site in made:
            site.close()


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    site = make_site().start()
    site.template()
    return site
