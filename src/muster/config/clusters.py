"""What a template says of its clusters, from the tables of the file to one checked value."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from muster.config.settings_file import nearest
from muster.domain import checks
from muster.domain.cluster_spec import (
    POOL_KEYS,
    ROLE_KEYS,
    SPEC_KEYS,
    AzureRole,
    ClusterSpec,
    Pair,
    PoolMode,
    PoolSpec,
    RoleWanted,
)
from muster.domain.errors import InvalidRequest

T = TypeVar("T")
Table = Mapping[str, Any]
_NEEDED = ("subscription", "resource_group", "region", "pools")


def cluster(data: Table) -> ClusterSpec:
    """Raises InvalidRequest, naming the key: `pools[1].count`."""
    _known("cluster", data, SPEC_KEYS)
    for key in _NEEDED:
        if key not in data:
            raise InvalidRequest(f"cluster.{key}", None, "must be given")
    content = dict(data)
    content["pools"] = _each("pools", data["pools"], _pool)
    content["roles"] = _each("roles", data.get("roles", []), _role)
    content["tags"] = _pairs("tags", data.get("tags", {}))
    made = _made("cluster", ClusterSpec, content)
    made.check_sizes()
    return made


def _pool(where: str, data: Table) -> PoolSpec:
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
    content["labels"] = _pairs(f"{where}.labels", data.get("labels", {}))
    return _made(where, PoolSpec, content)


def _role(where: str, data: Table) -> RoleWanted:
    _known(where, data, ROLE_KEYS)
    content = dict(data)
    content["role"] = AzureRole(checks.known(f"{where}.role", data.get("role"), tuple(AzureRole)))
    content.setdefault("scope", None)
    return _made(where, RoleWanted, content)


def _made(where: str, kind: Callable[..., T], content: dict[str, Any]) -> T:
    try:
        return kind(**content)
    except InvalidRequest as error:
        raise InvalidRequest(f"{where}.{error.field}", error.value, error.rule) from error


def _each(field: str, value: object, read: Callable[[str, Table], T]) -> tuple[T, ...]:
    if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
        raise InvalidRequest(field, value, f"must be tables: write [[templates.NAME.cluster.{field}]]")
    return tuple(read(f"{field}[{number}]", each) for number, each in enumerate(value))


def _pairs(field: str, value: object) -> tuple[Pair, ...]:
    if not isinstance(value, Mapping):
        raise InvalidRequest(field, value, "must be a table of names and values")
    return tuple(Pair(name=name, value=each) for name, each in value.items())


def _known(where: str, data: Table, keys: tuple[str, ...]) -> None:
    for key in data:
        if key not in keys:
            raise InvalidRequest(f"{where}.{key}", data[key], nearest(key, keys))
