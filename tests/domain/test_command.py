"""Commands: how their states follow each other, and what may be executed at all."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.domain import command as commands
from muster.domain import events, serialization
from muster.domain.command import (
    ARGUMENT_MAX,
    ARGUMENTS_MAX,
    COLLECT_MAX,
    EXIT_CODE_MAX,
    LOST_EXIT,
    OVERRUN_EXIT,
    SIGNAL_MAX,
    VARIABLES_MAX,
    Command,
    CommandState,
    Execution,
    Variable,
    exit_status,
    exited,
    lost,
    truncated,
)
from muster.domain.errors import IllegalTransition, InvalidRequest
from muster.domain.operation import Operation
from muster.domain.reasons import Reason
from muster.domain.requests import RunRequest
from tests.domain import strategies
from tests.domain.builders import NOW, command, modest, operation, provision

PENDING, RUNNING, EXITED, LOST = CommandState
ENDS = (EXITED, LOST)
Write = Callable[[Command], Command | None]
WRITES: dict[str, Write] = {
    "started": lambda c: commands.started(c, now=NOW),
    "exited": lambda c: commands.exited(c, exit_code=3, signal=None, now=NOW),
    "lost": lambda c: commands.lost(c, detail="its node died", now=NOW),
    "cancel_requested": lambda c: commands.cancel_requested(c, now=NOW),
}
LEGAL = {
    ("started", PENDING): RUNNING,
    ("exited", PENDING): EXITED,
    ("exited", RUNNING): EXITED,
    ("lost", PENDING): LOST,
    ("lost", RUNNING): LOST,
    ("cancel_requested", PENDING): PENDING,
    ("cancel_requested", RUNNING): RUNNING,
    ("cancel_requested", EXITED): None,
    ("cancel_requested", LOST): None,
}
"""What each write makes of a command in each state; None: nothing is written; absent: it is refused."""


def execution(**fields: Any) -> Execution:
    return Execution(**({"argv": ("make",)} | fields))


# --- states -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", CommandState)
@pytest.mark.parametrize("write", WRITES)
def test_a_write_leads_where_the_table_says_or_is_refused(write: str, state: CommandState) -> None:
    before = command(state)
    if (write, state) not in LEGAL:
        with pytest.raises(IllegalTransition, match="cannot"):
            WRITES[write](before)
        return
    after = WRITES[write](before)
    wanted = LEGAL[write, state]
    assert (after.state if after else None) is wanted
    if after is not None:
        assert after.version == before.version + 1
        assert (after.id, after.execution, after.assignment_id) == (
            before.id,
            before.execution,
            before.assignment_id,
        )


def test_each_write_notes_its_time_and_nothing_else_does() -> None:
    first = command()
    began = commands.started(first, now=NOW + 1)
    asked = commands.cancel_requested(began, now=NOW + 2)
    assert asked is not None
    ended = commands.exited(asked, exit_code=None, signal=9, now=NOW + 3)
    assert (ended.created_at, ended.started_at) == (first.created_at, NOW + 1)
    assert (ended.cancel_requested_at, ended.ended_at) == (NOW + 2, NOW + 3)
    assert (first.started_at, began.ended_at, began.cancel_requested_at) == (None, None, None)


def test_a_second_wish_to_cancel_keeps_the_time_of_the_first() -> None:
    asked = commands.cancel_requested(command(RUNNING), now=NOW)
    assert asked is not None
    assert commands.cancel_requested(asked, now=NOW + 9) is None


def test_a_lost_command_says_why_and_has_no_exit() -> None:
    gone = commands.lost(command(RUNNING), detail="its node died", now=NOW)
    assert (gone.detail, gone.exit_code, gone.signal, gone.ended) == ("its node died", None, None, True)


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (command(EXITED), 0),
        (command(EXITED, exit_code=2), 2),
        (command(EXITED, exit_code=None, signal=9), 137),
        (command(EXITED, exit_code=None, signal=15), 143),
        (command(EXITED, exit_code=None), LOST_EXIT),
        (command(LOST), LOST_EXIT),
        (command(LOST, reason=Reason.HEARTBEAT_LOST), LOST_EXIT),
        (command(LOST, reason=Reason.MAX_RUNTIME), OVERRUN_EXIT),
        (command(RUNNING), LOST_EXIT),
        (command(PENDING), LOST_EXIT),
    ],
)
def test_an_exit_status_is_what_a_shell_would_say(given: Command, status: int) -> None:
    assert exit_status(given) == status


@pytest.mark.parametrize("exit_code", [-1, 256, 2**63, True, "0"])
def test_an_exit_code_that_no_process_has_is_refused(exit_code: Any) -> None:
    with pytest.raises(InvalidRequest, match="exit_code"):
        commands.exited(command(RUNNING), exit_code=exit_code, signal=None, now=NOW)


@pytest.mark.parametrize("signal", [0, -9, 65, 2**63, "9"])
def test_a_signal_that_does_not_exist_is_refused(signal: Any) -> None:
    with pytest.raises(InvalidRequest, match="signal"):
        commands.exited(command(RUNNING), exit_code=None, signal=signal, now=NOW)


# --- what a process sees ----------------------------------------------------------------------------------


def test_a_process_sees_its_run_its_node_and_its_place() -> None:
    seen = command(n=2, execution=execution(env=(Variable(name="CI", value="1"),))).environment
    assert seen == {
        "CI": "1",
        "MUSTER_RUN": "run-1",
        "MUSTER_NODE": "node-2",
        "MUSTER_INDEX": "2",
        "MUSTER_COUNT": "3",
    }


def test_a_caller_cannot_lie_about_the_place_of_a_process() -> None:
    forged = (Variable(name="MUSTER_INDEX", value="7"), Variable(name="MUSTER_NODE", value="other"))
    seen = command(n=1, execution=execution(env=forged)).environment
    assert (seen["MUSTER_INDEX"], seen["MUSTER_NODE"]) == ("1", "node-1")


# --- validation -------------------------------------------------------------------------------------------


def refused(field: str, **fields: Any) -> str:
    with pytest.raises(InvalidRequest) as refusal:
        execution(**fields)
    assert refusal.value.field == field
    return str(refusal.value)


@settings(modest, max_examples=30)
@given(strategies.executions)
def test_whatever_a_process_can_be_given_is_accepted_and_survives_json(drawn: Execution) -> None:
    assert serialization.from_plain(Execution, json.loads(json.dumps(serialization.to_plain(drawn)))) == drawn


@pytest.mark.parametrize("argv", [(), ("",), ("",) * 3, ("x",) * (ARGUMENTS_MAX + 1), "ls", ["ls"], None])
def test_something_that_is_no_list_of_texts_with_a_program_is_refused(argv: Any) -> None:
    refused("argv", argv=argv)


def test_as_many_arguments_as_allowed_are_accepted() -> None:
    assert len(execution(argv=("x",) * ARGUMENTS_MAX).argv) == ARGUMENTS_MAX
    assert execution(argv=("echo", "")).argv == ("echo", ""), "only the program must have a name"


unfit = st.builds(
    lambda before, bad, after: before + bad + after,
    strategies.arguments,
    st.sampled_from(["\0", "\ud800", "\udfff"]),
    strategies.arguments,
)
"""Text that execve, or UTF-8, can't hold."""


@settings(modest, max_examples=30)
@given(unfit, st.integers(0, 2))
def test_an_argument_that_cannot_be_passed_is_refused_wherever_it_stands(bad: str, place: int) -> None:
    argv = ["make", "-k", "test"]
    argv[place] = bad
    refused("argv", argv=tuple(argv))


@pytest.mark.parametrize("argument", [3, None, b"x"])
def test_an_argument_that_is_no_text_is_refused(argument: Any) -> None:
    refused("argv", argv=("make", argument))


@pytest.mark.parametrize("letter", ["x", "ü", "€", "😀"])
def test_an_argument_is_measured_as_the_kernel_does_in_bytes(letter: str) -> None:
    size = len(letter.encode())
    fits = letter * (ARGUMENT_MAX // size)
    assert execution(argv=("echo", fits)).argv[1] == fits
    refused("argv", argv=("echo", fits + letter))


@settings(modest, max_examples=30)
@given(unfit)
def test_a_value_that_cannot_be_passed_is_refused_and_not_repeated(bad: str) -> None:
    message = refused("env", env=(Variable(name="TOKEN", value=f"hunter2{bad}"),))
    assert "TOKEN" in message
    assert "hunter2" not in message


@pytest.mark.parametrize("name", ["", "A B", "A=B", "1A", "A-B", "A\0", "\ud800", 3])
def test_a_variable_without_a_proper_name_is_refused(name: Any) -> None:
    refused("env", env=(Variable(name=name, value=""),))


def test_a_variable_is_measured_with_its_name() -> None:
    room = ARGUMENT_MAX - len("NAME=")
    assert execution(env=(Variable(name="NAME", value="x" * room),)).env
    refused("env", env=(Variable(name="NAME", value="x" * (room + 1)),))
    refused("env", env=(Variable(name="NAME", value=3),))  # type: ignore[arg-type]  # a caller's mistake


def test_too_many_variables_and_two_of_one_name_are_refused() -> None:
    many = tuple(Variable(name=f"V{n}", value="") for n in range(VARIABLES_MAX))
    assert execution(env=many).env == many
    refused("env", env=(*many, Variable(name="ONE_MORE", value="")))
    refused("env", env=(Variable(name="A", value="1"), Variable(name="A", value="2")))


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), True, "10", 1e9])
def test_a_timeout_that_is_no_time_is_refused(timeout: Any) -> None:
    refused("timeout", timeout=timeout)


climbing = st.lists(st.just("..") | strategies.names, min_size=1, max_size=4).filter(lambda p: ".." in p)


@settings(modest, max_examples=30)
@given(climbing)
def test_a_path_that_climbs_is_refused(parts: list[str]) -> None:
    refused("collect", collect=("out", "/".join(parts)))


@pytest.mark.parametrize("path", ["", "/etc/passwd", "/", " a", "a\n", "a\0", "x" * 4097, 3, None])
def test_a_path_outside_the_workspace_or_unprintable_is_refused(path: Any) -> None:
    refused("collect", collect=(path,))


def test_paths_inside_the_workspace_are_accepted_up_to_a_number() -> None:
    fine = ("out", "a/b.txt", "..hidden", "a..b/c", ".")
    assert execution(collect=fine).collect == fine
    assert execution(collect=("a",) * COLLECT_MAX).collect
    refused("collect", collect=("a",) * (COLLECT_MAX + 1))


@pytest.mark.parametrize("archive", ["", "a\0", " ", "x" * 1000, 3])
def test_an_archive_without_a_proper_name_is_refused(archive: Any) -> None:
    refused("archive", archive=archive)


# --- events and storage -----------------------------------------------------------------------------------

SECRET = execution(argv=("deploy",), env=(Variable(name="API_TOKEN", value="hunter2"),))


@pytest.mark.parametrize("write", WRITES)
def test_no_event_of_a_command_tells_what_is_executed(write: str) -> None:
    before = command(execution=SECRET)
    after = WRITES[write](before)
    assert after is not None
    submitted, changed = events.of_command(None, before), events.of_command(before, after)
    for draft in (submitted, changed):
        assert "hunter2" not in repr(draft)
        assert "execution" not in draft.changes
    assert submitted.name == before.state
    assert changed.name == ("cancel_requested" if write == "cancel_requested" else after.state)


def test_the_submission_of_a_run_does_not_tell_its_environment() -> None:
    request = RunRequest(provision=provision(), execution=SECRET)
    draft = events.of_submission(operation(request=request))
    assert "hunter2" not in repr(draft) and "API_TOKEN" not in repr(draft)
    told = serialization.from_plain(Operation, draft.changes).request
    assert told == RunRequest(provision=provision(), execution=execution(argv=("deploy",)))


@settings(modest, max_examples=30)
@given(strategies.commands)
def test_a_command_survives_json_and_back(drawn: Command) -> None:
    assert (
        serialization.from_plain(Command, json.loads(json.dumps(serialization.fields_to_plain(drawn))))
        == drawn
    )


@settings(modest, max_examples=30)
@given(strategies.run_requests)
def test_a_run_request_survives_json_and_back(drawn: RunRequest) -> None:
    assert (
        serialization.from_plain(RunRequest, json.loads(json.dumps(serialization.to_plain(drawn)))) == drawn
    )


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
