"""Break rules by small edits of a module's syntax tree, each a plausible mistake.

This module owns the list of edits. It skips what says nothing about a rule: annotations, docstrings,
decorators, the words of errors and f-strings. Numbers and strings outside of functions are settings and
names. A test derives its rows from them, so it must not notice.
"""

import ast
import copy
import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

OPPOSITES: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Add,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
"""The value of a limit itself falls to its other side; everything else becomes what it was not."""
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
Optional = frozenset[tuple[str, str]]
"""Callables and the arguments that they can do without."""
KNOWN = frozenset({"sorted", "max", "min", "sum", "zip", "quantiles"})
"""Callables from elsewhere that can do without any argument that is named in a call."""
_Part = TypeVar("_Part")
_LEFT_ALONE = ("annotation", "returns", "decorator_list", "type_comment", "ctx", "bases")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_CONDITIONS = ("test", "ifs", "guard")
_FOR_EFFECT = (ast.Expr, ast.Raise, ast.AugAssign, ast.Continue, ast.Break)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where the walk is."""

    statement: ast.AST
    scope: tuple[str, ...] = ()
    function: str = ""
    words: bool = True
    optional: Optional = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Edit:
    """One field of one node has another value."""

    holder: ast.AST
    field: str
    new: object
    line: int
    function: str
    """The outermost function around it, by its qualified name; empty: it is outside of functions."""
    statement: ast.AST

    def apply(self) -> object:
        """Make it, in the tree that it was found in. Returns what was there."""
        old: object = getattr(self.holder, self.field)
        setattr(self.holder, self.field, self.new)
        return old

    def shown(self) -> tuple[str, ...]:
        """Return the lines of its statement that differ, before and after."""
        before = ast.unparse(self.statement).splitlines()
        old = self.apply()
        after = ast.unparse(self.statement).splitlines()
        setattr(self.holder, self.field, old)
        found = difflib.unified_diff(before, after, n=0, lineterm="")
        return tuple(f"{line[0]} {line[1:].strip()}" for line in list(found)[2:] if line[0] in "+-")


def edits(tree: ast.Module, optional: Optional = frozenset()) -> list[Edit]:
    """Yield every edit of a module, in the order of its lines."""
    return sorted(_within(tree, _Place(statement=tree, optional=optional)), key=lambda edit: edit.line)


def optional_in(trees: Iterable[ast.Module]) -> Optional:
    """Return the arguments that calls may leave out: any test notices a missing required one."""
    found = set()
    for node in (each for tree in trees for each in ast.walk(tree)):
        if isinstance(node, ast.ClassDef):
            fields = [
                each for each in node.body if isinstance(each, ast.AnnAssign) and each.value is not None
            ]
            found |= {(node.name, each.target.id) for each in fields if isinstance(each.target, ast.Name)}
        elif isinstance(node, _FUNCTIONS):
            positional = node.args.args[len(node.args.args) - len(node.args.defaults) :]
            named = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            names = [*positional, *(each for each, default in named if default is not None)]
            found |= {(node.name, each.arg) for each in names}
    return frozenset(found)


def _within(node: ast.AST, place: _Place) -> Iterator[Edit]:
    """Yield the edits of a node's parts."""
    for field, value in ast.iter_fields(node):
        if field in _LEFT_ALONE:
            continue
        values = value if isinstance(value, list) else [value]
        for index, child in enumerate(values):
            if not isinstance(child, ast.AST) or _only_words(child, node):
                continue
            inner = _place_of(child, node, field, place)
            if isinstance(child, ast.Subscript) and not inner.function:
                continue  # a type
            for new in _instead(child, field, inner):
                whole = [*values[:index], new, *values[index + 1 :]] if isinstance(value, list) else new
                yield Edit(
                    holder=node,
                    field=field,
                    new=whole,
                    line=getattr(child, "lineno", getattr(place.statement, "lineno", 1)),
                    function=inner.function,
                    statement=node if isinstance(child, (ast.stmt, ast.match_case)) else inner.statement,
                )
            yield from _within(child, inner)


def _place_of(node: ast.AST, holder: ast.AST, field: str, place: _Place) -> _Place:
    if isinstance(node, (ast.stmt, ast.match_case)):
        place = replace(place, statement=node)
    if field == "body" and isinstance(holder, _FUNCTIONS):  # its defaults are made outside of it
        place = replace(place, function=place.function or ".".join(place.scope))
    if isinstance(node, (ast.ClassDef, *_FUNCTIONS)):
        return replace(place, scope=(*place.scope, node.name))
    return replace(place, words=False) if isinstance(node, ast.Raise) else place


def _instead(node: ast.AST, field: str, place: _Place) -> Iterator[ast.AST]:
    """Yield what could stand in the place of a node."""
    for new in _others(node, field, place):
        yield ast.fix_missing_locations(ast.copy_location(new, node))


def _others(node: ast.AST, field: str, place: _Place) -> Iterator[ast.AST]:
    if isinstance(node, _FOR_EFFECT) and place.function:
        yield ast.Pass()
    if isinstance(node, ast.Return) and not isinstance(node.value, (ast.Constant, type(None))):
        yield ast.Return(value=ast.Constant(value=None))
    if isinstance(node, ast.match_case) and node.guard is not None:
        yield ast.match_case(pattern=node.pattern, guard=None, body=node.body)
    if isinstance(node, ast.expr):
        if place.function or not isinstance(node, ast.BinOp):  # elsewhere, arithmetic spells a setting
            yield from _operators(node)
        yield from _parts(node, place)
        yield from _values(node, place)
        if field in _CONDITIONS and not isinstance(node, (ast.Compare, ast.BoolOp, ast.UnaryOp)):
            yield ast.UnaryOp(op=ast.Not(), operand=node)


def _operators(node: ast.expr) -> Iterator[ast.AST]:
    if isinstance(node, ast.Compare):
        for index, op in enumerate(node.ops):
            ops = [*node.ops[:index], OPPOSITES[type(op)](), *node.ops[index + 1 :]]
            yield _with(node, ops=ops)
    elif isinstance(node, (ast.BoolOp, ast.BinOp)) and type(node.op) in OPPOSITES:
        yield _with(node, op=OPPOSITES[type(node.op)]())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield node.operand
    elif isinstance(node, ast.Name) and node.id in NAMES:
        yield ast.Name(id=NAMES[node.id], ctx=ast.Load())


def _parts(node: ast.expr, place: _Place) -> Iterator[ast.AST]:
    """Yield the same node without one of its parts."""
    match node:
        case ast.BoolOp(values=[one, other]):
            yield from (other, one)
        case ast.BoolOp():
            yield from (_with(node, values=rest) for rest in _without_one(node.values))
        case ast.IfExp():
            yield from (node.body, node.orelse)
        case ast.Call():
            for gone in (each for each in node.keywords if _may_go(node.func, each, place)):
                yield _with(node, keywords=[each for each in node.keywords if each is not gone])
        case ast.Tuple(ctx=ast.Load()) | ast.List(ctx=ast.Load()) | ast.Set():
            if len(node.elts) > 1:
                yield from (_with(node, elts=rest) for rest in _without_one(node.elts))
        case ast.Dict():
            rests = zip(_without_one(node.keys), _without_one(node.values), strict=True)
            yield from (_with(node, keys=keys, values=values) for keys, values in rests)
        case _:
            return


def _may_go(function: ast.expr, keyword: ast.keyword, place: _Place) -> bool:
    if keyword.arg is None or not place.words:
        return False
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    return name == "replace" or name in KNOWN or (name, keyword.arg) in place.optional


def _values(node: ast.expr, place: _Place) -> Iterator[ast.AST]:
    if not isinstance(node, ast.Constant):
        return
    if isinstance(node.value, bool):
        yield ast.Constant(value=not node.value)
    elif place.function and isinstance(node.value, (int, float)):
        yield ast.Constant(value=node.value + 1)
    elif place.function and place.words and isinstance(node.value, str):
        yield ast.Constant(value=f"{node.value}X")


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _without_one(values: list[_Part]) -> Iterator[list[_Part]]:
    for index in range(len(values)):
        yield [*values[:index], *values[index + 1 :]]


def _only_words(node: ast.AST, holder: ast.AST) -> bool:
    """Return whether it is a docstring, or the text between the values of an f-string."""
    if isinstance(holder, ast.JoinedStr):
        return isinstance(node, ast.Constant)
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
