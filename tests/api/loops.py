"""Run a test of a server on the event loop of each kind: they buffer, pause and close in different ways."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from muster import system
from tests.api.site import opened

LOOPS = {"asyncio": asyncio.new_event_loop, "installed": system.new_loop}
"""Python's own, and the one that servers run on: uvloop's, where it is installed."""
Test = Callable[..., Coroutine[Any, Any, None]]


def on_each_loop(test: Test) -> Callable[..., None]:
    """Run the test with a site on each loop. Its other parameters are fixtures, as always."""

    @pytest.mark.parametrize("loop", LOOPS)
    def run(tmp_path: Path, loop: str, **given: Any) -> None:
        async def whole() -> None:
            async with opened(tmp_path) as site:
                await site.template()
                await test(site, **given)

        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            runner.run(whole())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    own = [each for each in inspect.signature(test).parameters.values() if each.name != "site"]
    mine = [each for each in inspect.signature(run).parameters.values() if each.name != "given"]
    vars(run)["__signature__"] = inspect.Signature([*mine, *own])  # pytest reads it
    ran: Callable[..., None] = run
    return ran
