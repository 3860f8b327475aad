"""Build the OpenAPI 3.1 document from the tables of routes and the shapes of the wire."""

import ast
import inspect
import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import cache
from itertools import pairwise
from typing import Any, get_args

import msgspec

import muster
from muster.api.access import Access
from muster.api.router import JSON, Raw, Route, Signature, Table
from muster.wire.base import PROBLEM_TYPE, AgentMessage, PageQuery, Problem, Query, Shape, encode

Document = dict[str, Any]
_REF = "#/components/schemas/{name}"
_SECURITY = {
    "token": {"type": "http", "scheme": "bearer", "description": "An API token."},
    "node": {"type": "http", "scheme": "bearer", "description": "A node's own token."},
}


def document(tables: Sequence[Table]) -> Document:
    routes = [(table, route, Signature.of(route)) for table in tables for route in table.routes]
    paths: Document = {}
    for table, route, signature in routes:
        methods = paths.setdefault(table.root + route.path, {})
        methods[route.method.lower()] = _operation(table, route, signature)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Muster",
            "summary": "A control plane that hands out ready compute",
            "version": muster.__version__,
        },
        "paths": paths,
        "components": {
            "schemas": _schemas([signature for _, _, signature in routes]),
            "securitySchemes": _SECURITY,
        },
    }


def _operation(table: Table, route: Route, signature: Signature) -> Document:
    words = (inspect.getdoc(route.handler) or "").split("\n")
    made: Document = {
        "tags": [table.tag],
        "summary": words[0].rstrip("."),
        "description": "\n".join([*words, "", f"Access: {route.access}."]).strip(),
        "operationId": f"{table.tag}_{route.handler.__name__}",
        "parameters": _parameters(signature),
        "responses": {str(route.status): _success(route, signature), "default": _PROBLEM},
    }
    if route.access is not Access.PUBLIC:
        made["security"] = [{"node" if route.access is Access.NODE else "token": []}]
    if route.takes is not None:
        made["requestBody"] = {"required": True, "content": _raw(route.takes)}
    elif signature.body is not None:
        content = {JSON: {"schema": {"$ref": _REF.format(name=_name(signature.body[1]))}}}
        made["requestBody"] = {"required": True, "content": content}
    return made


_PROBLEM = {
    "description": "A problem (RFC 9457): what could not be done, why, and what to do.",
    "content": {
        PROBLEM_TYPE: {"schema": {"$ref": _REF.format(name="Problem")}, "example": dict(Problem.EXAMPLE)}
    },
}


def _success(route: Route, signature: Signature) -> Document:
    made: Document = {"description": "Success"}
    if route.gives is not None:
        made["content"] = _raw(route.gives)
    elif signature.gives is not None:
        made["content"] = {JSON: {"schema": {"$ref": _REF.format(name=_name(signature.gives))}}}
    if route.location is not None:
        made["headers"] = {"Location": {"schema": {"type": "string"}}}
    return made


def _raw(body: Raw) -> Document:
    return {body.media_type: {"example": body.example}}


def _parameters(signature: Signature) -> list[Document]:
    text = {"type": "string"}
    made = [{"name": name, "in": "path", "required": True, "schema": text} for name in signature.path]
    if signature.query is not None:
        made += _query(signature.query[1])
    for header in signature.headers.values():
        described = {"description": header.description, "schema": text}
        made.append({"name": header.name, "in": "header", "required": False, **described})
    return made


def _query(shape: type[Query]) -> list[Document]:
    properties = _components([shape])[shape.__name__]["properties"]
    of_page = set(PageQuery.__struct_fields__) if issubclass(shape, PageQuery) else ()
    return [
        {"name": each.name, "in": "query", "required": each.required, "schema": properties[each.name]}
        for each in sorted(msgspec.structs.fields(shape), key=lambda each: each.name in of_page)
    ]


def _schemas(signatures: Iterable[Signature]) -> Document:
    """Return the schemas. Requests allow no further fields, except those of agents. Answers hold all their
    fields."""
    taken = [each.body[1] for each in signatures if each.body is not None]
    given = [each.gives for each in signatures if each.gives is not None]
    queries = [each.query[1] for each in signatures if each.query is not None]
    requests = _components(taken)
    made = {**requests, **_components(given), **_components(queries)}
    for query in queries:
        made.pop(query.__name__, None)
    for name, schema in made.items():
        shape = _shape(name)
        if shape is not None:
            _describe(schema, shape)
        if name not in requests and "properties" in schema:
            schema["required"] = list(schema["properties"])
        elif shape is not None and not issubclass(shape, AgentMessage):
            schema["additionalProperties"] = False
    return {**made, **_components([Problem])}


def _describe(schema: Document, shape: type[Shape]) -> None:
    if shape.EXAMPLE:
        schema["examples"] = [shape.EXAMPLE]
    for base in shape.__mro__:
        for name, words in _words(base).items():
            if name in schema["properties"]:
                schema["properties"][name].setdefault("description", words)


@cache
def _words(shape: type) -> dict[str, str]:
    """Return the docstring below each field in the source. A shape made at run time has no source."""
    if not issubclass(shape, Shape):
        return {}
    try:
        (definition,) = ast.parse(inspect.getsource(shape)).body
    except OSError:
        return {}
    assert isinstance(definition, ast.ClassDef)  # noqa: S101 — the source of a class
    return {
        field.target.id: inspect.cleandoc(words.value.value)
        for field, words in pairwise(definition.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(words, ast.Expr) and isinstance(words.value, ast.Constant)
        if isinstance(words.value.value, str)
    }


def _components(shapes: Iterable[Any]) -> Document:
    _, components = msgspec.json.schema_components(dict.fromkeys(shapes), ref_template=_REF)
    named = _PAGE.sub(rb"\1Page", encode(components))
    named = _ALIKE.sub(lambda found: found[1].upper() + found[2] + found[3], named)
    plain: Document = msgspec.json.decode(named.replace(b'{"type":"object"}', _ANY_OBJECT))
    for name, schema in plain.items():
        if "enum" in schema:
            schema["enum"] = _in_order(name, schema["enum"])
    return plain


def _in_order(name: str, words: list[str]) -> list[str]:
    """Return the words of an enum in the order of its declaration: msgspec sorts them."""
    declared = ([*each] for each in StrEnum.__subclasses__() if each.__name__ == name)
    return next((order for order in declared if sorted(order) == words), words)


_ANY_OBJECT = b'{"type":"object","additionalProperties":true}'
_PAGE = re.compile(rb"Page[_[](\w+?)[]_](?=\")")
_ALIKE = re.compile(rb"muster\.integrations\.(\w)(\w*)(?:\.\w+)*\.(\w+)")
"""The name of a shape that two integrations have."""
"""How msgspec names a page of something."""


def _name(shape: Any) -> str:
    inner = get_args(shape)
    return f"{inner[0].__name__}Page" if inner else str(shape.__name__)


def _shape(name: str, among: type[Shape] = Shape) -> type[Shape] | None:
    found = (_shape(name, each) for each in among.__subclasses__())
    return among if among.__name__ == name else next((each for each in found if each is not None), None)
