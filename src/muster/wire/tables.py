"""Shapes of the tables that installed integrations read, in templates and in provision requests."""

from collections.abc import Iterable
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from muster.discovery import installed
from muster.wire.base import Shape


def tables_of(name: str, tables: Iterable[Any]) -> type[Shape]:
    """Return a shape with a field for each table."""
    types: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    for table in tables:
        shape, always = SHAPES[table.name], getattr(table, "always", False)
        types[table.name] = shape if always else shape | None
        defaults[table.name] = msgspec.field(default_factory=shape) if always else None
    return _made(name, types, defaults)


def given_tables(shape: Shape, names: Iterable[str]) -> dict[str, Any]:
    """Return the tables of a shape as plain data."""
    return {name: msgspec.to_builtins(getattr(shape, name)) for name in names}


def _shape(kind: type) -> type[Shape]:
    """Return the shape of a table: the fields of the dataclass that reads it."""
    types = {name: _typed(hint) for name, hint in get_type_hints(kind).items()}
    defaults: dict[str, Any] = {}
    for each in fields(kind):
        if each.default is not MISSING:
            defaults[each.name] = each.default
        elif each.default_factory is not MISSING:
            defaults[each.name] = msgspec.field(default_factory=each.default_factory)
    return _made(f"{kind.__name__.removesuffix('Spec')}Table", types, defaults, __doc__=kind.__doc__)


def _typed(hint: Any) -> Any:
    """Replace dataclasses in a type by shapes, so that unknown fields are refused there too."""
    if is_dataclass(hint):
        return _shape(hint)  # type: ignore[arg-type]  # a class, not an instance
    if get_origin(hint) is not tuple:
        return hint
    inner: Any = _typed(get_args(hint)[0])
    return tuple[inner, ...]


def _made(name: str, types: dict[str, Any], defaults: dict[str, Any], **more: Any) -> type[Shape]:
    make: Any = type(Shape)
    made: type[Shape] = make(
        name, (Shape,), {"__annotations__": types, "__module__": __name__, **defaults, **more}
    )
    return made


SHAPES: dict[str, type[Shape]] = {
    each.name: _shape(each.kind)
    for tables in (installed().template_tables, installed().request_tables)
    for each in tables.values()
}
