"""The settings [aks], and the table [templates.NAME.cluster]."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

from muster.config import values
from muster.config.settings_file import nearest
from muster.config.tables import Table, TemplateTable
from muster.domain import checks
from muster.domain.errors import InvalidRequest
from muster.domain.template import CLUSTER, TemplateSpec
from muster.integrations.aks import vm_size
from muster.integrations.aks.spec import POOL_KEYS, ROLE_KEYS, AksPool, AksRole, AksSpec, AzureRole, PoolMode

T = TypeVar("T")
AKS = "aks"
"""The provider's name."""
Content = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AksConfig:
    """Who we are to Azure, and where it is. Secrets come from the environment, never from here."""

    endpoint: str = "https://management.azure.com"
    credential: str = "auto"
    poll_every: float = 20.0
    """Seconds between two looks at a cluster in the making."""
    call_timeout: float = 30.0
    """Seconds for one call. No setting: leases depend on it."""


def _endpoint(name: str, value: object) -> object:
    url = str(values.url(name, value))
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in values.LOOPBACK:
        raise InvalidRequest(
            name, value, "must be https, unless it is on this machine: a token is sent there"
        )
    return url


SETTINGS = Table(
    kind=AksConfig,
    keys={
        "endpoint": _endpoint,
        "credential": values.known("auto", "environment", "managed-identity", "cli"),
    },
    environment=("endpoint", "credential"),
    fixed=("call_timeout",),
)


def read(data: Content) -> AksSpec:
    """Read [templates.NAME.cluster] with its pools and roles. Raises InvalidRequest: `pools[1].count`."""
    content = dict(data)
    content["pools"] = _each("pools", data["pools"], _pool)
    content["roles"] = _each("roles", data.get("roles", []), _role)
    content["tags"] = _named(data.get("tags", {}))
    return AksSpec(**content)


def _pool(where: str, data: Content) -> AksPool:
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


def _role(where: str, data: Content) -> AksRole:
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


def _each(field: str, value: object, read: Callable[[str, Content], T]) -> tuple[T, ...]:
    if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
        raise InvalidRequest(field, value, f"must be tables: write [[templates.NAME.cluster.{field}]]")
    return tuple(read(f"{field}[{number}]", each) for number, each in enumerate(value))


def _named(value: Any) -> Any:
    """Earlier versions stored a list of names and values."""
    return {each["name"]: each["value"] for each in value} if isinstance(value, list) else value


def _known(where: str, data: Content, keys: tuple[str, ...]) -> None:
    for key in data:
        if key not in keys:
            raise InvalidRequest(f"{where}.{key}", data[key], nearest(key, keys))


def _sizes(_spec: TemplateSpec, cluster: AksSpec) -> None:
    """None of the value's own rules: what is stored must be readable by a server whose table is another."""
    for number, pool in enumerate(cluster.pools):
        vm_size.check(f"{CLUSTER}.pools[{number}].vm_size", pool.vm_size)


TEMPLATE = TemplateTable(
    name=CLUSTER,
    kind=AksSpec,
    read=read,
    provider=AKS,
    needs=("subscription", "resource_group", "region", "pools"),
    rule=_sizes,
    example={
        "subscription": "8d6f9a52-6c1e-4c0a-9b59-2f0a3a6f1b11",
        "resource_group": "rg-batch",
        "region": "westeurope",
        "kubernetes_version": None,
        "pools": [{"name": "systempool", "mode": "System", "vm_size": "Standard_D4s_v5", "count": 1}],
        "identity": "system",
        "oidc": True,
        "workload_identity": True,
        "tags": {"team": "genomics"},
        "roles": [],
        "keep_failed": False,
    },
)
