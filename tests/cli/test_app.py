import subprocess
import sys
import time

import pytest

from muster.cli.app import asks_for_json, commands, load_command
from tests.cli.terminal import Terminal


def test_help_lists_every_command_and_every_command_loads(alone: Terminal) -> None:
    said = alone.muster("--help")
    assert said.code == 0
    for name, entry in commands().items():
        assert name in said.out
        assert entry.help
        assert load_command(name).name == name or load_command(name).commands


@pytest.mark.parametrize("name", commands())
def test_every_command_explains_itself_and_can_speak_json(name: str) -> None:
    command = load_command(name)
    for each in (command, *getattr(command, "commands", {}).values()):
        assert each.help
        assert "--output" in [option for param in each.params for option in param.opts]


HEAVY = ("httpx", "starlette", "msgspec", "asyncio", "sqlite3", "importlib.metadata", "muster.config")


def test_help_starts_without_loading_what_commands_need(alone: Terminal, record_property: object) -> None:
    started = time.perf_counter()
    assert alone.typed("--help").code == 0
    seconds = time.perf_counter() - started
    print(f"muster --help: {seconds * 1000:.0f} ms")
    script = (
        "import sys; from muster.cli.app import app\n"
        "try: app(['--help'], standalone_mode=False)\n"
        f"finally: print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("provison",),
            "error: no such command 'provison'. Did you mean 'provision', 'provider'? See `muster --help`",
        ),
        (("nodes", "shwo"), "Did you mean 'show'? See `muster nodes --help`"),
        (("provision", "--cuont", "3"), "Possible options: --count"),
        (("extend", "ci-42"), "error: missing option '--by'; see `muster extend --help`"),
        (("nodes", "--output", "xml"), "'xml' is not one of 'text', 'json'"),
    ],
)
def test_a_typing_error_gets_a_suggestion_and_exit_code_2(
    alone: Terminal, words: tuple[str, ...], said: str
) -> None:
    answer = alone.muster(*words)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    assert len(answer.err.splitlines()) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("provison", "-o", "json"),
        ("provision", "--cuont", "3", "--output", "json"),
        ("provision", "--output=json", "--count", "abc"),
        ("provision", "-ojson", "--timeout", "soon"),
        ("extend", "ci-42", "-o", "json"),
        ("serve", "-o", "json", "--port", "x"),
        ("run", "-o", "json"),
        ("-o", "json"),
    ],
)
def test_a_usage_error_is_json_too_if_json_was_asked_for(alone: Terminal, words: tuple[str, ...]) -> None:
    answer = alone.muster(*words)
    assert (answer.code, answer.out) == (2, "")
    assert (answer.error["code"], answer.error["exit_code"]) == ("usage", 2)
    assert "--help`" in answer.error["message"] and len(answer.err.splitlines()) == 1


def test_what_belongs_to_the_command_on_the_node_asks_for_nothing_here(alone: Terminal) -> None:
    assert alone.muster("run", "--cuont", "3", "--", "tool", "-o", "json").err.startswith(
        "error: no such option"
    )
    assert not asks_for_json(["nodes", "-o", "text"])
    assert not asks_for_json(["nodes", "-o"])


@pytest.mark.parametrize("words", [("--help",), ("provision", "--help"), ("--version",)])
def test_a_reader_that_has_seen_enough_is_no_failure(alone: Terminal, words: tuple[str, ...]) -> None:
    assert alone.unread(*words) == (0, "")


def test_completion_knows_the_commands_and_their_options(alone: Terminal) -> None:
    asked = {"_MUSTER_COMPLETE": "complete_bash", "COMP_CWORD": "1", "COMP_WORDS": "muster pro"}
    assert "provision" in alone.typed(**asked).out.split()
    asked = {"_MUSTER_COMPLETE": "complete_bash", "COMP_CWORD": "2", "COMP_WORDS": "muster provision --cou"}
    assert "--count" in alone.typed(**asked).out.split()


def test_the_version_is_told(alone: Terminal) -> None:
    assert alone.muster("--version").out.startswith("muster 0.")


def test_who_never_started_a_server_is_told_to(alone: Terminal) -> None:
    for words in (("status",), ("nodes",), ("run", "--", "true")):
        said = alone.muster(*words)
        assert (
            said.code == 2 and "does not exist; start a server" in said.err and "`muster serve`" in said.err
        )
