"""`muster shell` as people use it: a real terminal, a real server, a real agent."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from websockets.http11 import Request
from websockets.server import ServerProtocol

from muster.cli import shell_session
from muster.cli.raw_terminal import Escapes
from muster.client.terminals import HEADER, PIECE, WINDOW
from muster.domain.errors import Gone
from muster.integrations.process.demo_site import Site
from tests.cli.terminal import PATIENCE, Terminal
from tests.cli.typist import Typist
from tests.e2e.site import until

Shell = Callable[..., Typist]
CANARY = "never-kept-anywhere"


@pytest.fixture(scope="module")
def run(terminal: Terminal) -> str:
    made = terminal.muster("provision", "--template", "small", "--run", "look", "--count", "2")
    assert made.code == 0, made.err
    return "look"


@pytest.fixture
def shell(terminal: Terminal) -> Iterator[Shell]:
    opened: list[Typist] = []

    def start(*words: str, size: tuple[int, int] = (30, 90), **more: str) -> Typist:
        environment = {**terminal.environment, **more}
        opened.append(
            Typist("shell", *words, environment=environment, directory=terminal.directory, size=size)
        )
        return opened[-1]

    yield start
    for each in opened:
        each.__exit__(None, None, None)


def feed(terminal: Terminal) -> str:
    return terminal.muster("events", "--last", "1000", "--output", "json").out


def nodes(terminal: Terminal) -> list[str]:
    found = terminal.muster("nodes", "--output", "json").json
    return [each["id"] for each in found["items"] if each["run"] == "look"]


def test_a_shell_has_the_workspace_the_rights_and_the_window_and_passes_its_exit_code_on(
    run: str, shell: Shell, terminal: Terminal
) -> None:
    assert terminal.muster("exec", run, "--", "touch", "made-by-exec").code == 0
    person = shell(run)
    assert "node 0 of 2" in person.prompted()
    assert "made-by-exec" in person.asks("ls; echo li''sted", "listed")
    assert "30 90" in person.asks("stty size; echo si''zed", "sized")
    as_shell = person.asks("id -u; umask; env | cut -d= -f1 | sort | grep MUSTER; echo lo''oked", "looked")
    as_exec = terminal.muster("exec", run, "--index", "0", "--raw", "--", "sh", "-c", "id -u; umask").out
    for line in as_exec.splitlines():
        assert line.removeprefix("[0] ") in as_shell
    assert "TOKEN" not in as_shell and "MUSTER_RUN" in as_shell
    person.line("exit 7")
    assert person.code() == 7
    assert person.settings() == person.before


def test_ctrl_c_stops_what_runs_on_the_node_and_not_the_client(run: str, shell: Shell) -> None:
    person = shell(run)
    person.prompted()
    # The program itself says so: before it runs, Ctrl-C would reach the shell alone.
    person.asks("sh -c 'echo wai\"\"ting; exec sleep 1000'", "waiting")
    person.type(b"\x03")
    person.asks("echo code=$?", "code=130")
    person.line("exit 0")
    assert person.code() == 0


def test_a_new_size_of_the_window_reaches_the_program(run: str, shell: Shell) -> None:
    person = shell(run)
    person.prompted()
    person.asks("trap 'stty size; echo chan''ged' WINCH; echo re''ady", "ready")
    person.resize(44, 123)
    assert "44 123" in person.sees("changed")


def test_a_program_instead_of_a_shell_on_the_node_that_is_named(
    run: str, shell: Shell, terminal: Terminal
) -> None:
    node = nodes(terminal)[-1]
    person = shell(node, "--", "sh", "-c", "echo I am $MUSTER_NODE; exit 3")
    person.sees(f"I am {node}")
    assert person.code() == 3


def test_a_tilde_and_a_dot_leave_and_end_the_shell_on_the_node(
    run: str, shell: Shell, terminal: Terminal
) -> None:
    person = shell(run)
    person.prompted()
    person.asks("echo ~~ is ho''me; sleep 1001", "is home")
    person.type("\r~?")
    person.sees("~. leaves")
    person.type("\r~.")
    person.sees("you left")
    assert person.code() == 0
    assert person.settings() == person.before
    (shown, *_) = terminal.muster("commands", "--output", "json").json["items"]
    assert shown["terminal"] is True
    assert terminal.muster("logs", "-f", shown["id"]).out == ""  # to its end
    assert terminal.muster("commands", "show", shown["id"], "--output", "json").json["state"] == "exited"


def test_piped_input_is_a_script_and_the_person_is_told(run: str, terminal: Terminal) -> None:
    said = terminal.typed("shell", run, given="echo one; tty; cat <<END\ntwo\nEND\nexit 4\n")
    assert said.code == 4
    assert said.out.splitlines() == ["one", "not a tty", "two"]
    assert said.err == "standard input is no terminal: the shell reads it as a script\n"


def test_ten_megabytes_of_piped_input_arrive_unchanged(run: str, terminal: Terminal) -> None:
    text = "".join(f"{number:09d}\n" for number in range(1_000_000))
    said = terminal.typed("shell", run, "--", "sh", "-c", "cksum; exit 0", given=text)
    assert (said.code, said.out.split()[1]) == (0, "10000000")


def test_a_person_leaves_a_program_that_reads_nothing_of_a_long_paste(run: str, shell: Shell) -> None:
    person = shell(run)
    person.prompted()
    person.asks("stty -echo; echo re''ady; exec sleep 600", "ready")
    person.type("pasted line\r" * (3 * WINDOW // 12))
    person.type("\r~.")
    person.sees("[muster: you left")
    assert person.code() == 0


class Talkative:
    """Stands for a server whose node sends many messages, and then is gone for good."""

    def __init__(self, messages: Iterable[bytes]) -> None:
        self._messages = messages
        self.passed = 0

    @contextmanager
    def terminal(self, _command_id: str) -> Iterator[Iterator[bytes]]:
        if self.passed:
            raise Gone("the shell has ended")
        yield self._each()

    def _each(self) -> Iterator[bytes]:
        for message in self._messages:
            self.passed += 1
            yield message


def linked(server: Any) -> shell_session.Link:
    _, ring = os.pipe()
    os.set_blocking(ring, False)
    return shell_session.Link(server, "cmd-1", ring)


def test_a_terminal_that_is_stopped_keeps_its_connection_and_takes_in_a_whole_window() -> None:
    server = Talkative(number.to_bytes(HEADER, "big") + b"x" for number in range(WINDOW))
    link = linked(server)
    link.start()
    link.join(PATIENCE)
    assert not link.is_alive(), "its thread waits for a person who reads nothing, and answers no ping"
    assert link.waiting == WINDOW + 3, "the connection, each message, its break, and the end"


def test_a_node_that_sends_more_than_it_may_is_not_read_on() -> None:
    server = Talkative(bytes(HEADER + PIECE) for _ in range(1000))
    link = linked(server)
    link.start()
    most = shell_session._WAITING // PIECE
    until(lambda: server.passed > most, "it to be full")
    for _ in range(3):
        link.take()
    until(lambda: server.passed > most + 2, "the room to be used")
    link.close()
    link.join(PATIENCE)
    assert not link.is_alive()


IMPATIENT = """
import sys, threading
from muster.client import terminals
from muster.client.http import Target
terminals._PING_EVERY = 0.1
with terminals.open_terminal(Target(url=sys.argv[1], token="t"), "cmd-1") as connection:
    try:
        connection.recv()
    except Exception as error:
        print(error)
for thread in threading.enumerate():
    if thread is not threading.current_thread():
        thread.join()
"""


def test_a_server_that_falls_silent_leaves_no_words_of_a_library_on_the_terminal() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        command = [sys.executable, "-c", IMPATIENT, url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as person:
            line, _ = silent.accept()
            with line:
                protocol = ServerProtocol()
                while not (asked := protocol.events_received()):
                    protocol.receive_data(line.recv(65536))
                assert isinstance(asked[0], Request)
                protocol.send_response(protocol.accept(asked[0]))
                line.sendall(b"".join(protocol.data_to_send()))
                out, err = person.communicate(timeout=PATIENCE)
    assert ("keepalive ping timeout" in out, err) == (True, "")


def test_the_terminal_is_restored_when_the_client_is_told_to_end(run: str, shell: Shell) -> None:
    person = shell(run)
    person.prompted()
    assert person.raw
    person.send(signal.SIGTERM)
    assert person.code() == 128 + signal.SIGTERM
    assert person.settings() == person.before


def test_the_feed_says_who_looked_from_when_to_when_and_how_much_but_not_what(
    run: str, shell: Shell, terminal: Terminal
) -> None:
    person = shell(run)
    person.prompted()
    person.asks(f"echo {CANARY} && echo do''ne", "done")
    person.line("exit")
    assert person.code() == 0
    events = feed(terminal)
    found = [json.loads(line) for line in events.splitlines()]
    ended = [each for each in found if each["name"] == "exited" and each["changes"].get("traffic")][-1]
    opened = next(each for each in found if each["entity_id"] == ended["entity_id"])
    assert opened["changes"]["terminal"] is True
    assert opened["changes"]["node_id"] in nodes(terminal)
    assert "first admin" in opened["actor"] == ended["actor"]
    assert ended["changes"]["traffic"]["received"] > len(CANARY)
    assert ended["changes"]["traffic"]["sent"] > len(CANARY)
    assert opened["at"] < ended["changes"]["ended_at"]
    assert CANARY not in events
    assert terminal.muster("logs", ended["entity_id"]).out == ""


def test_viewers_unknown_names_and_nodes_without_a_run_are_refused(
    run: str, terminal: Terminal, site: Site
) -> None:
    viewer = terminal.muster("tokens", "create", "looker", "--role", "viewer", "--output", "json").json
    said = terminal.muster("shell", run, MUSTER_TOKEN=viewer["secret"], MUSTER_SERVER=site.url)
    assert (said.code, "needs the role operator" in said.err) == (2, True)
    said = terminal.muster("shell", "no-such-run")
    assert (said.code, "no-such-run" in said.err) == (2, True)
    said = terminal.muster("shell", "node-0000000000000000aa")
    assert (said.code, "cannot find node" in said.err) == (2, True)
    said = terminal.muster("shell", run, "--index", "9")
    assert said.code == 2


@pytest.mark.parametrize(
    ("typed", "passed", "left", "asked"),
    [
        (b"~.", b"", True, False),
        (b"ls\r~.rest", b"ls\r", True, False),
        (b"a~.", b"a~.", False, False),
        (b"~~.", b"~.", False, False),
        (b"~?x", b"x", False, True),
        (b"~/bin\r", b"~/bin\r", False, False),
        (b"cd ~\r~~\r", b"cd ~\r~\r", False, False),
    ],
)
def test_escapes_count_at_the_start_of_a_line(typed: bytes, passed: bytes, left: bool, asked: bool) -> None:
    whole, single = Escapes(), Escapes()
    assert whole.passed(typed) == passed
    assert b"".join(single.passed(bytes([each])) for each in typed if not single.left) == passed
    assert (whole.left, whole.asked) == (single.left, single.asked) == (left, asked)


@pytest.mark.parametrize(("status", "told"), [(126, True), (127, True), (0, False), (1, False)])
def test_a_shell_that_the_node_could_not_start_points_to_the_reason(
    status: int, told: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.isatty", lambda _end: False)
    client: Any = None  # is not asked
    session = shell_session.Session(client, "cmd-1", "node-1")
    session._ended({"why": "exited", "status": status})
    assert session._code == status
    assert ("`muster logs cmd-1` says why" in capsys.readouterr().err) is told
