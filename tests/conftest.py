"""Show what tests measured at the end, whichever process measured it. Programs under test hear Ctrl-C.

Workers get the long tests first, and no name of a test is longer than a line. A failure is told when it
happens. A test that hangs even after its time-out ends its worker.
"""

import faulthandler
import gc
import os
import signal
from collections.abc import Iterator

import pytest

from muster.cli import output
from tests.piles import is_slow, piled

ID_MOST = 80
WHY_MOST = 300
TO_END = 90.0
"""How long a test that is over its time may take to clean up."""
_STDERR = pytest.StashKey[int]()
"""The process's own: while a test runs, its output is captured."""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As in a shell's background. Processes that are started from here would never hear it either.
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Telling:
    """One line for each failure as soon as it is known; the whole story comes at the end, if there is one."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self._reporter = reporter

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            phase = "" if report.when == "call" else f" ({report.when})"
            lines = [line for line in report.longreprtext.splitlines() if line.startswith("E ")]
            why = lines[0][1:].strip() if lines else report.longreprtext.strip().rpartition("\n")[2]
            self._reporter.write_line(f"\nFAILED{phase} {report.nodeid}: {why[:WHY_MOST]}")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    config.stash[_STDERR] = os.dup(2)
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if isinstance(reporter, pytest.TerminalReporter):
        config.pluginmanager.register(Telling(reporter), "telling")


def _watch(item: pytest.Item) -> None:
    """End this process, and show where each thread is, if the test outlives its time-out by too much.

    pytest-timeout interrupts a test once; what its fixtures then wait for, they may wait for without end.
    """
    marker = item.get_closest_marker("timeout")
    given = item.config.getoption("timeout")
    seconds = float(marker.args[0] if marker else item.config.getini("timeout") if given is None else given)
    if seconds:
        faulthandler.dump_traceback_later(seconds + TO_END, exit=True, file=item.config.stash[_STDERR])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _watch(item)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """pytest's own plugin has just called the watch off."""
    if isinstance(node, pytest.Item):
        _watch(node)


@pytest.fixture(autouse=True)
def plain_text() -> Iterator[None]:
    """What one test asks for (`--output json`) is chosen for its process, and is no other test's choice."""
    yield
    output.OutputSettings.form = output.Form.TEXT


def pytest_itemcollected(item: pytest.Item) -> None:
    if is_slow(item.nodeid):
        item.add_marker(pytest.mark.slow)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    given: dict[str, int] = getattr(config, "workerinput", {})
    items[:] = piled(items, given.get("workercount", 1))


def pytest_collection() -> None:
    """Collecting makes hardly any garbage, and looking for it takes a quarter of the time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Keep what was collected out of each garbage collection: it stays, and is a million objects."""
    gc.enable()
    gc.collect()
    gc.freeze()


def pytest_make_parametrize_id(val: object) -> str | None:
    """Some values are a million characters long, and would be printed with every failure."""
    return f"{val[:20]}…{len(val)}" if isinstance(val, str) and len(val) > ID_MOST else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    measured = [
        (report.nodeid, name, value)
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
        for name, value in report.user_properties
    ]
    if measured:
        terminalreporter.section("measured")
        for nodeid, name, value in measured:
            terminalreporter.line(f"{nodeid.rpartition('::')[2]}: {name}: {value}")
