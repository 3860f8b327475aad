"""How the lines of a boot are read, one by one."""

import re
from collections import Counter

import pytest

from muster.domain import symptoms as symptoms_module
from muster.domain.diagnosis import Cause, Evidence, Source
from muster.domain.symptoms import (
    LINE_MOST,
    PASSED,
    TROUBLE,
    WORDS,
    Line,
    Place,
    Symptom,
    cloud_init_gave_up,
    lines_of,
    place,
    script_end,
    symptoms,
)

FULL = "cp: error writing 'x': No space left on device"
STAMP = "2026-01-01T00:00:00Z"
AGENT = f"{STAMP} the boot script ended with 3"


def ended(code: int = 1) -> str:
    return f"Failed running /var/lib/cloud/instance/scripts/part-001 [{code}]"


def console(*texts: str) -> list[Line]:
    return lines_of(Source.CONSOLE, "\n".join(texts))


def found(*texts: str) -> Place | None:
    lines = console(*texts, ended())
    end = script_end(lines)
    assert end is not None
    return place(lines, end)


# --- lines ----------------------------------------------------------------------------------------


def test_lines_are_counted_from_one_and_know_their_section() -> None:
    assert lines_of(Source.AGENT, "one\ntwo") == [
        Line(section=Source.AGENT, number=1, text="one"),
        Line(section=Source.AGENT, number=2, text="two"),
    ]


@pytest.mark.parametrize(
    ("raw", "seen"),
    [
        ("10 %\r50 %\r100 %", "100 %"),
        ("10 %\r100 %\r", "100 %"),
        ("10 X\r\r\r", "10 X"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("x" * (LINE_MOST - 1), "x" * (LINE_MOST - 1)),
        ("x" * LINE_MOST, "x" * LINE_MOST),
        ("x" * (LINE_MOST + 1), "x" * LINE_MOST),
        ("y" * (20 * LINE_MOST - 2) + "\rzz", "z"),
    ],
    ids=["progress", "ended", "thrice", "coloured", "shorter", "longest", "longer", "endless"],
)
def test_a_line_is_what_a_person_would_have_seen_of_it(raw: str, seen: str) -> None:
    assert console(raw)[0].text == seen


@pytest.mark.parametrize("length", [299, 300, 301])
def test_evidence_is_a_bounded_line_without_blanks_around_it(length: int) -> None:
    (line,) = console(f"  {'x' * length}  ")
    assert line.evidence == Evidence(section=Source.CONSOLE, line=1, text="x" * min(length, 300))


# --- trouble --------------------------------------------------------------------------------------


@pytest.mark.parametrize("passed", ["Complete!", f"{STAMP} step: next"])
def test_trouble_passes_only_by_a_line_of_its_own_section(passed: str) -> None:
    trouble = lines_of(Source.AGENT, FULL)
    assert symptoms([*trouble, *lines_of(Source.AGENT, passed)]) == []
    assert symptoms([*trouble, *console(passed)]) == [Symptom(cause=Cause.DISK_FULL, at=0)]


def test_a_tool_that_goes_on_has_no_trouble() -> None:
    assert symptoms(console(f"warning: {FULL}")) == []
    assert symptoms(console(FULL)) == [Symptom(cause=Cause.DISK_FULL, at=0)]


# --- how a script ended ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "how", "killed"),
    [
        (1, "exit status 1", False),
        (127, "exit status 127", False),
        (128, "exit status 128", False),
        (129, "exit status 129, killed by signal 1", True),
        (254, "exit status 254, killed by signal 126", True),
        (255, "exit status 255", False),
        (-9, "killed by signal 9", True),
        (0, "exit status 0", False),
    ],
)
def test_a_status_above_128_is_a_signal_as_a_shell_says_it(code: int, how: str, killed: bool) -> None:
    end = script_end(console(ended(code)))
    assert end is not None
    assert (end.how, end.killed) == (how, killed)


def test_a_script_that_the_agent_saw_killed_ended_by_that_signal() -> None:
    end = script_end(console(f"{STAMP} the boot script was killed by signal 15"))
    assert end is not None
    assert (end.how, end.killed) == ("killed by signal 15", True)


def test_the_agent_quotes_the_last_words_below_up_to_its_own_next_line() -> None:
    lines = console("before", AGENT, "one", "two", f"{STAMP} stopping", "three")
    end = script_end(lines)
    assert end is not None
    assert (end.at, end.first, end.last, end.how) == (1, 2, 4, "exit status 3")


def test_the_agent_s_quote_ends_with_its_section() -> None:
    lines = [*lines_of(Source.AGENT, f"{AGENT}\none"), *console("other")]
    end = script_end(lines)
    assert end is not None
    assert (end.first, end.last) == (1, 2)
    alone = script_end(lines[:2])
    assert alone is not None
    assert alone.last == 2


@pytest.mark.parametrize("before", [WORDS - 1, WORDS, WORDS + 1])
def test_cloud_init_has_the_last_words_above(before: int) -> None:
    end = script_end(console(*["x"] * before, ended()))
    assert end is not None
    assert (end.at, end.first, end.last) == (before, max(0, before - WORDS), before)


def test_the_last_of_several_ends_counts() -> None:
    end = script_end(console(ended(1), ended(2)))
    assert end is not None
    assert end.how == "exit status 2"
    assert script_end(console("going on")) is None


def test_cloud_init_gave_up_if_its_scripts_failed() -> None:
    failed = "cc_scripts_user.py[WARNING]: Failed to run module scripts_user (scripts in /var)"
    assert cloud_init_gave_up(console("going on", failed))
    assert not cloud_init_gave_up(console("going on"))


# --- where it failed ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "where"),
    [
        (
            "/opt/part-001: line 7: jqq: command not found",
            Place(at=0, number=7, command="jqq", message="command not found"),
        ),
        ("boot: 7: jqq: not found", Place(at=0, number=7, command="jqq", message="not found")),
        (
            "/opt/part-001: line 7:  1234 Killed                  make all",
            Place(at=0, number=7, command="make all", message="Killed"),
        ),
        ("error on line 7: make all ", Place(at=0, number=7, command="make all")),
        ("+ make all ", Place(at=0, number=None, command="make all")),
        ("+ boot.sh:7: make all", Place(at=0, number=7, command="make all")),
        ("ValueError: no", Place(at=0, number=None, command="", message="ValueError: no")),
        ("+ exit 1", None),
        ("going on", None),
    ],
)
def test_a_script_s_interpreter_says_where_it_failed(line: str, where: Place | None) -> None:
    assert found(line) == where


def test_the_last_line_that_says_where_counts_before_any_trace() -> None:
    bash = "/opt/x: line 3: a: not found"
    assert found(bash, "/opt/x: line 4: b: not found") == Place(
        at=1, number=4, command="b", message="not found"
    )
    assert found(bash, "+ make all") == Place(at=0, number=3, command="a", message="not found")
    assert found("+ make all", "+ make rest", "+ exit 1") == Place(at=1, number=None, command="make rest")


def test_an_error_of_python_is_placed_by_its_last_frame() -> None:
    trace = (
        'File "/opt/a.py", line 3, in <module>',
        "    run()",
        'File "/opt/b.py", line 9, in run',
        "    go()",
    )
    assert found(*trace, "ValueError: no") == Place(at=4, number=9, command="go()", message="ValueError: no")
    assert found(trace[0], "ValueError: no") == Place(at=1, number=3, command="", message="ValueError: no")


def test_a_frame_after_an_error_is_not_its_frame() -> None:
    after = found("ValueError: no", 'File "/opt/a.py", line 3, in <module>')
    assert after == Place(at=0, number=None, command="", message="ValueError: no")


def test_what_stands_before_the_last_words_does_not_say_where() -> None:
    assert found("/opt/x: line 3: a: not found", *["x"] * WORDS) is None
    frame = 'File "/opt/a.py", line 3, in <module>'
    error = found(frame, *["x"] * (WORDS - 1), "ValueError: no")
    assert error == Place(at=WORDS, number=None, command="", message="ValueError: no")


def test_an_agent_that_goes_on_at_once_quotes_nothing() -> None:
    end = script_end(console(AGENT, f"{STAMP} stopping"))
    assert end is not None
    assert (end.first, end.last) == (1, 1)


def test_each_line_is_read_once_by_each_pattern_however_much_trouble_stands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads: Counter[str] = Counter()

    class Counting:
        def __init__(self, pattern: re.Pattern[str]) -> None:
            self.pattern = pattern

        def search(self, text: str) -> re.Match[str] | None:
            reads[self.pattern.pattern] += 1
            return self.pattern.search(text)

    monkeypatch.setattr(symptoms_module, "PASSED", {cause: Counting(each) for cause, each in PASSED.items()})
    every = (
        "Kernel panic - not syncing, turned away (401), No space left on device, Cannot allocate memory,"
        " Name or service not known, certificate verify failed, No route to host, manifest unknown,"
        " dpkg: error processing, muster: cannot start the agent"
    )
    count = 200
    lines = lines_of(Source.CONSOLE, "\n".join([every] * count))
    assert len(symptoms(lines)) == len(TROUBLE) * count
    # Four causes pass by the same pattern.
    assert sum(reads.values()) <= len(PASSED) * count


def test_a_command_that_was_killed_is_named_without_the_blanks_before_it() -> None:
    for said, how in (("Killed", "Killed"), ("Segmentation fault (core dumped)", "Segmentation fault")):
        assert symptoms_module._command(f"12 {said}      make -j4") == ("make -j4", ":", how)
    assert symptoms_module._command("12 A" + " " * 996)[0].startswith("12 A"), "a line of blanks is read once"
