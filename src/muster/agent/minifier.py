"""The agent as it is sent: the same program without what only its readers need.

Takes out comments, docstrings, annotations and blanks, nothing else: what a machine executes stays, on the
same lines. User data is small, and every word that explains the agent would else cost a feature.
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
    return _tight("".join(line.decode().rstrip() + "\n" for line in lines))


Cut = tuple[Place, Place, bytes]
"""From, to, and what stands there instead."""


def _cut(lines: list[bytes], start: Place, end: Place, instead: bytes) -> None:
    (first, left), (last, right) = start, end
    rest = lines[last - 1][right:]
    lines[first - 1] = lines[first - 1][:left] + instead + (rest if first == last else b"\n")
    for number in range(first + 1, last + 1):
        lines[number - 1] = rest if number == last else b"\n"


def _tight(text: str) -> str:
    """Leave out blanks between tokens that stay apart without them, and indent with one blank per level.

    Text in quotes stays as it is. Each token stays on its line.
    """
    lines = text.splitlines()
    rows = [""] * len(lines)
    level, fresh, last = 0, True, 0
    for kind, (line, column), (end, stop) in _pieces(text):
        level += (kind == tokenize.INDENT) - (kind == tokenize.DEDENT)
        fresh = fresh or kind == tokenize.NEWLINE
        if kind in _LAYOUT:
            continue
        row = line - 1
        first, *more = "\n".join([*lines[row : end - 1], lines[end - 1][:stop]])[column:].split("\n")
        if last and lines[last - 1].endswith("\\") and last < line:
            rows[last - 1] += "\\"
        if not rows[row]:
            rows[row] = " " * (level if fresh else 0)
        elif _is_word(rows[row][-1]) and _is_word(first[0]):
            rows[row] += " "
        rows[row] += first
        rows[line:end] = more
        fresh, last = False, end
    return "".join(f"{row}\n" for row in rows)


_LAYOUT = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def _pieces(text: str) -> Iterator[tuple[int, Place, Place]]:
    """Yield kind, begin and end of each token. Text with values in it is one, as before Python 3.12."""
    opened: list[Place] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        name = tokenize.tok_name[token.type]
        if name.endswith("STRING_START"):
            opened.append(token.start)
        elif name.endswith("STRING_END"):
            begin = opened.pop()
            if not opened:
                yield tokenize.STRING, begin, token.end
        elif not opened:
            yield token.type, token.start, token.end


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


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
