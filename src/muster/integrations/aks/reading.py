"""Read the table [templates.NAME.cluster], with its pools and roles, into one checked value."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from muster.config.settings_file import nearest
from muster.domain import checks
from muster.domain.errors import InvalidRequest
from muster.integrations.aks.spec import POOL_KEYS, ROLE_KEYS, AksPool, AksRole, AksSpec, AzureRole, PoolMode

T = TypeVar("T")
Table = Mapping[str, Any]


def read(data: Table) -> AksSpec:
    """Raises InvalidRequest, naming the key: `pools[1].count`."""
    content = dict(data)
    content["pools"] = _each("pools", data["pools"], _pool)
    content["roles"] = _each("roles", data.get("roles", []), _role)
    content["tags"] = _named(data.get("tags", {}))
    return AksSpec(**content)


def _pool(where: str, data: Table) -> AksPool:
    _known(where, data, POOL_KEYS)
    for key in ("name", "vm_size"):
        if key not in data:
            raise InvalidRequest(f"{where}.{key}", None, "must be given")
    content = dict(data)
    content["mode"] = PoolMode(
        checks.known(f"{where}.mode", data.get("mode", PoolMode.USER), tuple(PoolMode))
    )
    taints = data.get("taints", [])
    content["taints"] = tuple(taints) if isinstance(taints, list) else taints
    content["labels"] = _named(data.get("labels", {}))
    return _made(where, AksPool, content)


def _role(where: str, data: Table) -> AksRole:
    _known(where, data, ROLE_KEYS)
    content = dict(data)
    content["role"] = AzureRole(checks.known(f"{where}.role", data.get("role"), tuple(AzureRole)))
    content.setdefault("scope", None)
    return _made(where, AksRole, content)


def _made(where: str, kind: Callable[..., T], content: dict[str, Any]) -> T:
    try:
        return kind(**content)
    except InvalidRequest as error:
        raise InvalidRequest(f"{where}.{error.field}", error.value, error.rule) from error


def _each(field: str, value: object, read: Callable[[str, Table], T]) -> tuple[T, ...]:
    if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
        raise InvalidRequest(field, value, f"must be tables: write [[templates.NAME.cluster.{field}]]")
    return tuple(read(f"{field}[{number}]", each) for number, each in enumerate(value))


def _named(value: Any) -> Any:
    """Earlier versions stored a list of names and values."""
    return {each["name"]: each["value"] for each in value} if isinstance(value, list) else value


def _known(where: str, data: Table, keys: tuple[str, ...]) -> None:
    for key in data:
        if key not in keys:
            raise InvalidRequest(f"{where}.{key}", data[key], nearest(key, keys))
