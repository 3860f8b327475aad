"""EC2's query protocol: a form in, XML out, both after the SDK's own description of the service."""

from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from botocore.loaders import Loader
from botocore.model import ServiceModel

NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"
Tree = dict[str, Any]


class ApiError(Exception):
    def __init__(self, code: str, text: str, status: int = 400) -> None:
        self.code = code
        self.text = text
        self.status = status
        super().__init__(f"{code}: {text}")


@cache
def _service() -> Any:
    return ServiceModel(Loader().load_service_model("ec2", "service-2"))


def action_of(form: str) -> tuple[str, Mapping[str, str]]:
    pairs = dict(parse_qsl(form, keep_blank_values=True))
    return pairs.pop("Action", ""), pairs


def parameters(action: str, pairs: Mapping[str, str]) -> dict[str, Any]:
    """Return a request's parameters, named as the SDK's callers name them."""
    tree: Tree = {}
    for key, value in pairs.items():
        *path, last = key.split(".")
        here = tree
        for name in path:
            here = here.setdefault(name, {})
        here[last] = value
    shape = _service().operation_model(action).input_shape
    found: dict[str, Any] = _read(shape, tree)
    return found


def _read(shape: Any, tree: Any) -> Any:
    if shape.type_name == "structure":
        return {
            name: _read(member, tree[_sent(member, name)])
            for name, member in shape.members.items()
            if _sent(member, name) in tree
        }
    if shape.type_name == "list":
        return [_read(shape.member, tree[number]) for number in sorted(tree, key=int)]
    if shape.type_name in ("integer", "long"):
        return int(tree)
    if shape.type_name in ("double", "float"):
        return float(tree)
    return tree == "true" if shape.type_name == "boolean" else tree


def _sent(shape: Any, name: str) -> str:
    """Return the name under which a parameter is sent."""
    named = shape.serialization
    if "queryName" in named:
        return str(named["queryName"])
    located = str(named.get("name", name))
    return located[0].upper() + located[1:]


def answer(action: str, value: Mapping[str, Any]) -> bytes:
    shape = _service().operation_model(action).output_shape
    inner = "" if shape is None else _written(shape, value)
    body = f'<{action}Response xmlns="{NAMESPACE}"><requestId>fake</requestId>{inner}</{action}Response>'
    return body.encode()


def _written(shape: Any, value: Any) -> str:
    if shape.type_name == "structure":
        return "".join(
            _element(member.serialization.get("name", name), _written(member, value[name]))
            for name, member in shape.members.items()
            if value.get(name) is not None
        )
    if shape.type_name == "list":
        name = shape.member.serialization.get("name", "item")
        return "".join(_element(name, _written(shape.member, each)) for each in value)
    if shape.type_name == "boolean":
        return "true" if value else "false"
    return escape(str(value))


def _element(name: str, inner: str) -> str:
    return f"<{name}>{inner}</{name}>"


def problem(error: ApiError) -> bytes:
    text = f"<Code>{escape(error.code)}</Code><Message>{escape(error.text)}</Message>"
    inner = f"<Errors><Error>{text}</Error></Errors><RequestID>fake</RequestID>"
    return f"<Response>{inner}</Response>".encode()
