"""What tests measured is shown at the end, whichever process measured it. Programs under test hear Ctrl-C."""

import signal

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As in a shell's background. Whoever is started from here would never hear it either.
    signal.signal(signal.SIGINT, signal.default_int_handler)


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
