"""The files of `muster.slots` run on hosts that have only an old Python."""

import ast
from pathlib import Path

import pytest

import muster.slots

FILES = sorted(Path(muster.slots.__file__).parent.glob("*.py"))
NEWER = ("removeprefix", "removesuffix", "slots=True", "kw_only", "waitstatus_to_exitcode", "strict=")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_python_3_8_can_read_and_run_it(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text, feature_version=(3, 8))
    assert [word for word in NEWER if word in text] == []
    assert len(tree.body) == 1 or "from __future__ import annotations" in text
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom | ast.Import):
            assert "muster" not in ast.unparse(node) or "muster.slots" in ast.unparse(node)
