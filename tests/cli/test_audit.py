"""`muster audit`: who did what, chosen, followed and exported."""

import json
import signal

import pytest

from tests.cli.terminal import Terminal


def test_the_audit_names_who_did_what_and_can_be_narrowed(terminal: Terminal) -> None:
    terminal.muster("pause", "small")
    terminal.muster("resume", "small")
    told = terminal.muster("audit", "--since", "1h", "--entity", "small", "-o", "json").lines
    assert [each["name"] for each in told][-2:] == ["paused", "resumed"]
    assert {each["actor"].partition(" (")[0] for each in told[-2:]} == {"first admin"}
    assert [each["name"] for each in terminal.muster("audit", "--action", "paused", "-o", "json").lines] == [
        "paused"
    ]
    none = terminal.muster("audit", "--who", "nobody at all")
    assert (none.code, none.out, none.err) == (0, "", "no act matches\n")
    assert terminal.muster("audit", "--until", "2001-01-01").out == ""
    (line,) = terminal.muster("audit", "--who", "FIRST ADMIN", "--action", "resumed").out.splitlines()
    assert "first admin (tok-" in line and line.endswith("resumed  installation  small")


def test_a_line_says_whether_it_was_a_shell_or_a_command_and_of_which_run_and_node(
    terminal: Terminal,
) -> None:
    made = terminal.muster("provision", "--template", "small", "--run", "looked", "--output", "json")
    node = made.json["members"][0]["node_id"]
    assert terminal.muster("exec", "looked", "--", "true").code == 0
    assert terminal.typed("shell", "looked", given="exit\n").code == 0
    lines = terminal.muster("audit", "--entity", "command").out.splitlines()
    asked = [line for line in lines if line.endswith(f"  run looked  node {node}")]
    assert ["  submitted  command  cmd-" in line for line in asked] == [True, False]
    assert "  submitted  shell  cmd-" in asked[1]
    assert any("  exited  shell  cmd-" in line for line in lines), "its end is an act too"


def test_the_audit_is_followed_from_its_past_on_without_a_gap(terminal: Terminal) -> None:
    terminal.muster("pause", "small")
    chosen = ("--entity", "small", "--since", "1m")
    client = terminal.started(("audit", "--follow", *chosen, "-o", "json"))
    assert client.stdout is not None
    try:
        assert any(json.loads(line)["name"] == "paused" for line in client.stdout)
        terminal.muster("resume", "small")
        assert any(json.loads(line)["name"] == "resumed" for line in client.stdout)
    finally:
        client.send_signal(signal.SIGINT)
        client.communicate(timeout=30)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--since", "yesterday"), "is not a time: write how long ago, such as 2h"),
        (("--follow", "--until", "1h"), "--until and --follow exclude each other"),
    ],
)
def test_what_the_audit_cannot_do_is_refused(terminal: Terminal, words: tuple[str, ...], why: str) -> None:
    said = terminal.muster("audit", *words)
    assert said.code == 2 and why in said.err
