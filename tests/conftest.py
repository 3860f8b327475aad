"""What tests measured is shown at the end, whichever process measured it. Programs under test hear Ctrl-C.

Workers get the long tests first, and no name of a test is longer than a line.
"""

import gc
import signal

import pytest

from tests.piles import is_slow, piled

ID_MOST = 80

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As in a shell's background. Whoever is started from here would never hear it either.
    signal.signal(signal.SIGINT, signal.default_int_handler)


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
