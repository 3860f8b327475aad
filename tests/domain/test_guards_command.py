"""A command's record, field by field, and its limits on both sides."""

from dataclasses import replace
from typing import Any

import pytest

from muster.domain.command import (
    EXIT_CODE_MAX,
    SIGNAL_MAX,
    CommandState,
    Execution,
    Variable,
    exited,
    lost,
    truncated,
)
from muster.domain.errors import InvalidRequest
from tests.domain.builders import NOW, command


def test_output_is_cut_once_and_the_record_tells_where() -> None:
    running = command(state=CommandState.RUNNING)
    cut = truncated(running, kept=7)
    assert cut == replace(running, version=running.version + 1, truncated_at=7)
    assert cut is not None
    assert truncated(cut, kept=8) is None


@pytest.mark.parametrize("exit_code", [0, 1, EXIT_CODE_MAX])
def test_an_exit_is_recorded_with_its_code(exit_code: int) -> None:
    running = command(state=CommandState.RUNNING)
    after = exited(running, exit_code=exit_code, signal=None, now=NOW)
    assert after == replace(
        running,
        state=CommandState.EXITED,
        version=running.version + 1,
        ended_at=NOW,
        exit_code=exit_code,
        signal=None,
    )


@pytest.mark.parametrize("signal", [1, SIGNAL_MAX])
def test_an_exit_by_a_signal_is_recorded_with_the_signal(signal: int) -> None:
    after = exited(command(state=CommandState.RUNNING), exit_code=None, signal=signal, now=NOW)
    assert (after.exit_code, after.signal) == (None, signal)


@pytest.mark.parametrize(
    ("field", "value"),
    [("exit_code", -1), ("exit_code", EXIT_CODE_MAX + 1), ("signal", 0), ("signal", SIGNAL_MAX + 1)],
)
def test_what_no_process_can_end_with_is_refused_by_its_field(field: str, value: int) -> None:
    ending: dict[str, Any] = {"exit_code": None, "signal": None, field: value}
    with pytest.raises(InvalidRequest) as refused:
        exited(command(state=CommandState.RUNNING), now=NOW, **ending)
    assert refused.value.field == field


def test_a_lost_command_ended_when_it_was_lost() -> None:
    assert lost(command(state=CommandState.RUNNING), detail="gone", now=NOW).ended_at == NOW


@pytest.mark.parametrize(
    ("field", "value"),
    [("env", [Variable(name="A", value="b")]), ("collect", ["out"])],
    ids=["env", "collect"],
)
def test_a_list_that_could_still_change_is_refused(field: str, value: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        Execution(argv=("make",), **{field: value})
    assert refused.value.field == field


@pytest.mark.parametrize("length", [4095, 4096, 4097])
def test_a_path_may_be_as_long_as_a_path_can_be(length: int) -> None:
    path = "x" * length
    if length > 4096:
        with pytest.raises(InvalidRequest):
            Execution(argv=("make",), collect=(path,))
    else:
        assert Execution(argv=("make",), collect=(path,)).collect == (path,)
