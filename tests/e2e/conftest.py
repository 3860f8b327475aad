import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.e2e.fork_server import ForkServer
from tests.e2e.site import Site
from tests.integrations.docker.engines import engine, own_engine, shared
from tests.outcome import PASSED, pytest_runtest_makereport

__all__ = ["engine", "own_engine", "pytest_runtest_makereport", "shared"]

if sys.platform != "linux":
    collect_ignore_glob = ["test_*.py"]  # they look into /proc and hold processes by their pidfd


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    with ForkServer() as fork_server:
        yield fork_server


@pytest.fixture
def make_site(
    tmp_path: Path, fork_server: ForkServer, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Site]]:
    """Sites that are verified at the end of a test that passed, and cleaned up whatever happened."""
    made: list[Site] = []
    elsewhere = ExitStack()

    def make(name: str = "site", **options: Any) -> Site:
        root = tmp_path / name
        if options.get("user"):
            # pytest's own directories are root's alone.
            root = Path(elsewhere.enter_context(TemporaryDirectory(prefix="muster-", dir="/var/tmp")))
            os.chown(root, options["user"], options["user"])
        else:
            root.mkdir()
        made.append(Site(root, fork_server, **options))
        return made[-1]

    try:
        yield make
        if request.node.stash.get(PASSED, False):
            for site in made:
                site.verify()
    finally:
        for site in made:
            site.close()
        elsewhere.close()


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    site = make_site().start()
    site.template()
    return site
