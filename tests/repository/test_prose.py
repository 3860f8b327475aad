"""Pages and docstrings are written in plain words: short sentences, and no words that hide who acts."""

import ast
import inspect
import re
import tokenize
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest

from tests.repository.test_docs import ROOT

LONGEST = 25
HIDDEN = re.compile(r"\b(nobody|somebody|whom|whoever|whomever|he|him|his)\b", re.IGNORECASE)
NAMED = re.compile(r"^ *(?:async )?(?:def|class) (\w+)", re.MULTILINE)
PAGES = sorted(
    [*ROOT.glob("docs/*.md"), *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY"))]
)


CHECKED = (
    "src/muster",
    "src/muster_simulation",
    "action",
    "bench",
    "demos",
    "examples",
    "fakes",
    "tests",
    "tools",
)
"""Folders whose docstrings and comments are held to the same rules."""


def _prose(text: str) -> str:
    """Return the text without code blocks; inline code and links count as the words that they show."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"`[^`]*`", "Code", text)


def sentences(text: str) -> Iterator[str]:
    """Yield each sentence outside tables. A list item, a paragraph and a heading end one."""
    lines = [line for line in _prose(text).splitlines() if not line.lstrip().startswith("|")]
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*#]|\d+\.)\s)", "\n".join(lines)):
        words = re.sub(r"\b(e\.g|i\.e)\.", r"\1", " ".join(block.split()))
        yield from re.split(r"(?<=[.!?])[)*_\"]*\s+(?=[^a-z])", words)


def too_long(text: str) -> list[str]:
    """Return the sentences of more than LONGEST words. A word has a letter or a digit in it."""
    return [each for each in sentences(text) if len(re.findall(r"\S*\w\S*", each)) > LONGEST]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_has_short_sentences_and_says_who_acts(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert too_long(text) == []
    assert HIDDEN.findall(_prose(text)) == []


def _docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield each docstring with its line, attributes' too, without rows of tables and drawings."""
    for scope in ast.walk(ast.parse(source)):
        if not isinstance(scope, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for each in scope.body:
            if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant):
                lines = inspect.cleandoc(str(each.value.value)).splitlines()
                yield (
                    each.lineno,
                    "\n".join(line for line in lines if not re.search(r"\S {2,}\S|[│└┌▲▼]|^ ", line)),
                )


@pytest.mark.parametrize("part", CHECKED)
def test_docstrings_have_short_sentences_and_say_who_acts(part: str) -> None:
    place = ROOT / part
    found = [
        f"{file.relative_to(ROOT)}:{line}: {problem}"
        for file in sorted(place.rglob("*.py"))
        for line, text in _docstrings(file.read_text(encoding="utf-8"))
        for problem in [*too_long(text), *HIDDEN.findall(_prose(text))]
    ]
    assert found == []


@pytest.mark.parametrize("part", CHECKED)
def test_comments_say_who_acts(part: str) -> None:
    found = [
        f"{file.relative_to(ROOT)}:{token.start[0]}: {token.string}"
        for file in sorted((ROOT / part).rglob("*.py"))
        if HIDDEN.search(source := file.read_text(encoding="utf-8"))
        for token in tokenize.generate_tokens(StringIO(source).readline)
        if token.type == tokenize.COMMENT and HIDDEN.search(token.string)
    ]
    assert found == []


def test_names_say_who_acts() -> None:
    found = [
        f"{file.relative_to(ROOT)}: {name}"
        for part in CHECKED
        for file in sorted((ROOT / part).rglob("*.py"))
        for name in NAMED.findall(file.read_text(encoding="utf-8"))
        if HIDDEN.search(name.replace("_", " "))
    ]
    assert found == []


def test_a_docstring_of_one_word_too_many_is_found() -> None:
    long = "Muster " + "very " * LONGEST + "much."
    source = f'class A:\n    """Be short.\n\n    {long}\n    """\n\n    b = 1\n    """{long}"""\n'
    assert [line for line, text in _docstrings(source) if too_long(text)] == [2, 8]


def test_a_sentence_of_one_word_too_many_is_found() -> None:
    fits = "- Muster " + "very " * (LONGEST - 2) + "`waits for a node`."
    more = fits.replace("very", "very very", 1)
    assert too_long(f"{fits} A second one begins.\n{more}\n\n| {more} |\n\n```\n{more}\n```\n") == [
        re.sub("`.*`", "Code", more)
    ]
