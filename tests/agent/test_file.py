"""The agent as a file: small enough for user data, old enough for any machine."""

import ast
import io
import subprocess
import sys
import tokenize
import zlib
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import pytest

import muster.agent
from muster.agent import agent
from muster.agent.minifier import bare

TEXT = Path(agent.__file__).read_text(encoding="utf-8")
SENT = muster.agent.source()


def test_it_fits_into_fourteen_kilobytes_compressed() -> None:
    assert len(zlib.compress(SENT.encode(), 9)) < 14 * 1024


def test_python_3_8_can_read_it() -> None:
    for text in (TEXT, SENT):
        ast.parse(text, feature_version=(3, 8))


def test_nothing_newer_than_3_8_is_evaluated() -> None:
    """Annotations are text there; outside of them, `int | str` and `dict[str, int]` would fail."""
    generic = {"dict", "list", "tuple", "set", "frozenset", "type"}
    tree = ast.parse(TEXT)
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            if isinstance(getattr(node, name, None), ast.expr):
                setattr(node, name, None)
    for node in ast.walk(tree):
        assert not (
            isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in generic
        )
    assert "removeprefix" not in TEXT and "slots=" not in TEXT and "kw_only" not in TEXT


def _executed(text: str) -> str:
    """What a machine makes of it, with the line of every statement."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        if isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(0)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            node.body[:1] = [] if len(node.body) > 1 else [ast.Pass()]
    lines = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt) and hasattr(node, "lineno")]
    return ast.dump(tree) + repr(sorted(set(lines)))


def test_the_records_in_what_is_sent_have_the_same_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = ModuleType("sent_agent")
    monkeypatch.setitem(sys.modules, sent.__name__, sent)
    exec(SENT, vars(sent))  # noqa: S102 — the agent as a machine gets it
    for name in ("State", "Desired", "Command", "Answered", "Send"):
        assert [each.name for each in fields(vars(sent)[name])] == [
            each.name for each in fields(vars(agent)[name])
        ]


def test_what_is_sent_is_the_same_program_on_the_same_lines() -> None:
    assert _executed(SENT) == _executed(TEXT)
    assert len(SENT.splitlines()) == len(TEXT.splitlines())


def test_what_is_sent_explains_nothing() -> None:
    tokens = tokenize.generate_tokens(io.StringIO(SENT).readline)
    assert [token.string for token in tokens if token.type == tokenize.COMMENT] == ["#!/usr/bin/env python3"]
    assert not any(
        ast.get_docstring(node)
        for node in ast.walk(ast.parse(SENT))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
    )


def test_what_is_sent_runs(tmp_path: Path) -> None:
    sent, steps = tmp_path / "agent.py", tmp_path / "steps"
    sent.write_text(SENT)
    steps.touch()
    env = {"MUSTER_STEPS": str(steps)}
    subprocess.run([sys.executable, sent, "step", "compiling"], env=env, check=True)
    assert steps.read_text() == "compiling\n"


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("x = '# no comment'  # one\n", "x='# no comment'\n"),
        ("def f(a: int = 1, *b: str) -> int:\n    return a\n", "def f(a=1,*b):\n return a\n"),
        ('class C:\n    """Two\n    lines."""\n', "class C:\n pass\n\n"),
        ("def f(\n    a: str,  # ä\n) -> 'ä':\n    return a\n", "def f(\na,\n):\n return a\n"),
        (
            'if a:\n    x = (\n        1\n    )\n    y = """\n    b"""\n',
            'if a:\n x=(\n1\n)\n y="""\n    b"""\n',
        ),
        ("ä = 'ä'  # ä\ny: int = 1\n", "ä='ä'\ny:0=1\n"),
        ('x = 1 if y else not "a b"\n', 'x=1 if y else not"a b"\n'),
        ("x = f'{a + b:>4} = {{c}} {f(\"d e\")}' + 'f'\n", "x=f'{a + b:>4} = {{c}} {f(\"d e\")}'+'f'\n"),
        ("x = 1 + \\\n    2\n", "x=1+\\\n2\n"),
    ],
)
def test_only_what_readers_need_is_left_out(written: str, sent: str) -> None:
    assert bare(written) == sent
