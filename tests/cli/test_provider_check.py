"""`muster provider`, in a process of its own, as the author of an executable uses it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integrations.command.place import EXAMPLES, end_processes, script

BREAKS_PROMISES = """#!/usr/bin/env python3
# Keeps every machine under a new id, so that a repeat makes another one.
import json, subprocess, sys
asked = json.load(sys.stdin)
if sys.argv[1] == "launch":
    asked["launch"] += str(asked["config"].setdefault("again", 0))
    for machine in asked["machines"]:
        machine["name"] = machine["name"][:-1] + "9"
done = subprocess.run([{example!r}, *sys.argv[1:]], input=json.dumps(asked), capture_output=True, text=True)
print(done.stdout)
"""


def muster(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "muster.cli", "provider", *words], capture_output=True, text=True, check=False
    )


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    path = tmp_path / "check.toml"
    path.write_text(f"[config]\ndirectory = '{tmp_path}/machines'\n")
    return path


@pytest.mark.parametrize("example", ["processes.py", "processes.sh"])
def test_the_examples_keep_every_promise_and_leave_nothing(
    example: str, settings: Path, tmp_path: Path
) -> None:
    done = muster("check", str(EXAMPLES / example), "-f", str(settings), "--machines", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "every promise kept"
    assert "passed  nothing is left behind" in done.stdout


def test_a_promise_that_is_not_kept_is_named_and_what_was_made_is_ended(
    settings: Path, tmp_path: Path
) -> None:
    path = script(tmp_path / "broken", BREAKS_PROMISES.format(example=str(EXAMPLES / "processes.py")))
    try:
        done = muster("check", str(path), "-f", str(settings), "--output", "json")
        assert done.returncode == 1, done.stdout + done.stderr
        found = json.loads(done.stdout)
        assert not found["kept"]
        verdicts = {each["promise"]: each["verdict"] for each in found["promises"]}
        assert verdicts["a launch makes the machines that were asked for"] == "failed"
        assert verdicts["nothing is left behind"] == "passed"
    finally:
        end_processes(tmp_path / "machines")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("exectuable = 1", "there is no exectuable"),
        ("dialect = 'terraform'", "dialect"),
        ("resource_class = 'huge'", "must be one of small"),
        ("config = [", "can't be read"),
    ],
)
def test_a_wrong_file_is_refused_with_the_key(text: str, words: str, settings: Path) -> None:
    settings.write_text(text)
    done = muster("check", str(EXAMPLES / "processes.py"), "-f", str(settings))
    assert done.returncode == 2 and words in done.stderr, done.stderr


def test_without_machines_only_what_makes_none_is_tried(settings: Path) -> None:
    done = muster("check", str(EXAMPLES / "processes.py"), "-f", str(settings), "--dry")
    assert done.returncode == 0 and "a launch" not in done.stdout


def test_the_schema_has_every_verb() -> None:
    found = json.loads(muster("schema").stdout)
    assert list(found["verbs"]) == ["hello", "launch", "list", "describe", "console", "terminate"]
