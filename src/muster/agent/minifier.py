"""The agent as it is sent: the same program without what only its readers need.

Takes out comments, docstrings, annotations and most of the indentation, nothing else: what a machine executes
stays, on the same lines. User data is small, and every word that explains the agent would
else cost a feature.
"""

import ast
import io
import tokenize
from collections.abc import Iterator

Place = tuple[int, int]
"""A line, from 1 on, and a byte in it, from 0 on."""
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def bare(text: str) -> str:
    tree = ast.parse(text)
    lines = [line.encode() for line in text.splitlines(keepends=True)]
    cuts = [*_comments(text), *_in_tree(tree, lines)]
    for start, end, instead in sorted(cuts, reverse=True):
        _cut(lines, start, end, instead)
    return _dented("".join(line.decode().rstrip() + "\n" for line in lines))


Cut = tuple[Place, Place, bytes]
"""From, to, and what stands there instead."""


def _cut(lines: list[bytes], start: Place, end: Place, instead: bytes) -> None:
    (first, left), (last, right) = start, end
    rest = lines[last - 1][right:]
    lines[first - 1] = lines[first - 1][:left] + instead + (rest if first == last else b"\n")
    for number in range(first + 1, last + 1):
        lines[number - 1] = rest if number == last else b"\n"


_LAYOUT = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def _dented(text: str) -> str:
    """Indent with one blank per level. Further lines of a statement need none. Text over lines stays
    unchanged."""
    lines = text.splitlines()
    level, fresh = 0, True
    indents: dict[int, int] = {}
    inside: dict[int, bool] = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        level += (token.type == tokenize.INDENT) - (token.type == tokenize.DEDENT)
        if token.type == tokenize.NEWLINE:
            fresh = True
        if token.type in _LAYOUT:
            continue
        first, last = token.start[0], token.end[0]
        indents.setdefault(first, level if fresh else 0)
        inside.update(dict.fromkeys(range(first + 1, last + 1), True))
        fresh = False
    return "".join(
        (line if number in inside else " " * indents.get(number, 0) + line.lstrip()) + "\n"
        for number, line in enumerate(lines, 1)
    )


def _comments(text: str) -> Iterator[Cut]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and token.start != (1, 0):  # the first line names the interpreter
            line, column = token.start
            before = len(token.line[:column].encode())
            yield (line, before), (line, before + len(token.string.encode())), b""


def _in_tree(tree: ast.Module, lines: list[bytes]) -> Iterator[Cut]:
    """Find docstrings and the annotations of functions, in one walk: the walk is what takes long."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.annotation is not None:
            line, column = _start(node)
            yield (line, column + len(node.arg.encode())), _end(node.annotation), b""
        if isinstance(node, ast.AnnAssign):  # a dataclass asks which of its names have one, not for what
            yield _start(node.annotation), _end(node.annotation), b"0"
        if isinstance(node, _Function) and node.returns is not None:
            line, column = _start(node.returns)
            yield (line, lines[line - 1].rindex(b")", 0, column) + 1), _end(node.returns), b""
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            said = node.body[0]
            yield _start(said), _end(said), b"" if len(node.body) > 1 else b"pass"


def _start(node: ast.arg | ast.expr | ast.stmt) -> Place:
    return node.lineno, node.col_offset


def _end(node: ast.expr | ast.stmt) -> Place:
    assert node.end_lineno is not None and node.end_col_offset is not None  # noqa: S101 — parsed from text
    return node.end_lineno, node.end_col_offset
