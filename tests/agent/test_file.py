"""The agent as a file: small enough for user data, old enough for any machine."""

import ast
import zlib
from pathlib import Path

import muster.agent
from muster.agent import agent

TEXT = Path(agent.__file__).read_text(encoding="utf-8")


def test_it_fits_into_twelve_kilobytes_compressed() -> None:
    assert len(zlib.compress(TEXT.encode(), 9)) < 12 * 1024


def test_python_3_8_can_read_it() -> None:
    ast.parse(TEXT, feature_version=(3, 8))


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


def test_the_package_hands_out_its_text() -> None:
    assert muster.agent.source() == TEXT
