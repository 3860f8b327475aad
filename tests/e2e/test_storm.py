"""A short storm on SQLite: `make storm` runs longer ones, also with several servers (docs/testing.md)."""

import os

import pytest

from tools.storm.__main__ import main

MINUTES = os.environ.get("MUSTER_STORM_MINUTES", "0.5")


@pytest.mark.timeout(600)
def test_a_storm_loses_nothing_doubles_nothing_leaks_nothing_and_never_stands_still() -> None:
    assert main(["--minutes", MINUTES, "--store", "sqlite", "--seed", "1"]) == 0
