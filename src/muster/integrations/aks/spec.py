"""What a cluster is made of: an operator's recipe for one AKS cluster, checked before anything is called.

Owns Azure's own rules for names and ids, said in words. Whether a size is offered in a region, and whether a
quota suffices, only Azure knows.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum

from muster.domain import checks
from muster.domain.errors import InvalidRequest
from muster.integrations.aks import vm_size

GROUP_NAME_MAX = 90
POOL_NAME_MAX = 12
POOLS_MAX = 100
POOL_NODES_MAX = 1000
CLUSTER_NODES_MAX = 5000
DISK_LEAST, DISK_MOST = 30, 2048
TAGS_MAX = 45
"""Azure takes 50; ours are among them."""
TAG_NAME_MAX, TAG_VALUE_MAX = 512, 256
LABELS_MAX = 50
ID_MAX = 1024
OURS = "muster-"
"""The prefix of Muster's own tags; other tags may not have it."""
SYSTEM_IDENTITY = "system"

_GROUP_NAME = re.compile(r"[\w().-]*[\w()-]", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_REGION = re.compile(r"[a-z]+[a-z0-9]*", re.ASCII)
_VERSION = re.compile(r"1\.\d{1,3}(?:\.\d{1,3})?", re.ASCII)
_POOL_NAME = re.compile(r"[a-z][a-z0-9]*", re.ASCII)
# Any name that Azure may use; whether it is one is asked when it is written, not when it is read again.
_SIZE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_TAINT = re.compile(
    r"(?:[a-z0-9.-]{1,253}/)?[\w.-]{1,63}(?:=[\w.-]{0,63})?:(?:NoSchedule|PreferNoSchedule|NoExecute)",
    re.ASCII | re.IGNORECASE,
)
_LABEL_NAME = re.compile(
    r"(?:[a-z0-9.-]{1,253}/)?[a-z0-9](?:[\w.-]{0,61}[a-z0-9])?", re.ASCII | re.IGNORECASE
)
_LABEL_VALUE = re.compile(r"(?:[a-z0-9](?:[\w.-]{0,61}[a-z0-9])?)?", re.ASCII | re.IGNORECASE)
_RESERVED_LABELS = ("kubernetes.azure.com/", "kubernetes.io/", "k8s.io/")
_UNTAGGABLE = re.compile(r"[<>%&\\?/]")
_RESERVED_TAGS = ("microsoft", "azure", "windows")
_ID = r"/subscriptions/[^/\s]+/resourceGroups/[^/\s]+/providers/"


def _under(kind: str) -> re.Pattern[str]:
    return re.compile(_ID + kind, re.IGNORECASE)


_SUBNET = _under(r"Microsoft\.Network/virtualNetworks/[^/\s]+/subnets/[^/\s]+")
_USER_IDENTITY = _under(r"Microsoft\.ManagedIdentity/userAssignedIdentities/[^/\s]+")
_REGISTRY = _under(r"Microsoft\.ContainerRegistry/registries/[^/\s]+")
_STORAGE = _under(r"Microsoft\.Storage/storageAccounts/[^/\s]+(?:/\S+)?")
_NETWORK = _under(r"Microsoft\.Network/\S+")


class PoolMode(StrEnum):
    SYSTEM = "System"
    USER = "User"


class AzureRole(StrEnum):
    """What a cluster may be allowed to do elsewhere, by the names that Azure gives these roles."""

    ACR_PULL = "AcrPull"
    STORAGE_BLOB_DATA_CONTRIBUTOR = "Storage Blob Data Contributor"
    NETWORK_CONTRIBUTOR = "Network Contributor"


_SCOPES = {
    AzureRole.ACR_PULL: (_REGISTRY, "a container registry"),
    AzureRole.STORAGE_BLOB_DATA_CONTRIBUTOR: (_STORAGE, "a storage account"),
    AzureRole.NETWORK_CONTRIBUTOR: (_NETWORK, "a network resource"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AksPool:
    """One node pool."""

    name: str
    mode: PoolMode = PoolMode.USER
    vm_size: str
    count: int = 1
    taints: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    disk_gb: int | None = None
    """None: what Azure gives for the size."""
    subnet: str | None = None

    def __post_init__(self) -> None:
        pool_name("name", self.name)
        checks.word("mode", self.mode, PoolMode)
        checks.matching("vm_size", self.vm_size, _SIZE, vm_size.RULE, longest=vm_size.SIZE_MAX)
        checks.whole("count", self.count, least=1, most=POOL_NODES_MAX)
        _taints("taints", self.taints)
        _labels("labels", self.labels)
        if self.disk_gb is not None:
            checks.whole("disk_gb", self.disk_gb, least=DISK_LEAST, most=DISK_MOST)
        if self.subnet is not None:
            _resource("subnet", self.subnet, _SUBNET, "a subnet")


@dataclass(frozen=True, slots=True, kw_only=True)
class AksRole:
    role: AzureRole
    scope: str
    """The id of what it is granted on."""

    def __post_init__(self) -> None:
        checks.word("role", self.role, AzureRole)
        _resource("scope", self.scope, *_SCOPES[self.role])


@dataclass(frozen=True, slots=True, kw_only=True)
class AksSpec:
    subscription: str
    resource_group: str
    region: str
    pools: tuple[AksPool, ...]
    kubernetes_version: str | None = None
    """None: what AKS gives by default."""
    identity: str = SYSTEM_IDENTITY
    """`system`, or the id of a user-assigned identity."""
    oidc: bool = True
    workload_identity: bool = True
    tags: Mapping[str, str] = field(default_factory=dict)
    roles: tuple[AksRole, ...] = ()
    keep_failed: bool = False
    """A create that fails leaves what there is, to be looked at; otherwise it is removed."""

    def __post_init__(self) -> None:
        subscription("subscription", self.subscription)
        group_name("resource_group", self.resource_group)
        region("region", self.region)
        if self.kubernetes_version is not None:
            checks.matching(
                "kubernetes_version", self.kubernetes_version, _VERSION, "must be like 1.33 or 1.33.2"
            )
        if self.identity != SYSTEM_IDENTITY:
            _resource("identity", self.identity, _USER_IDENTITY, "a user-assigned identity, or be `system`")
        for flag in ("oidc", "workload_identity", "keep_failed"):
            checks.flag(flag, getattr(self, flag))
        if self.workload_identity and not self.oidc:
            rule = "must be false while oidc is: workload identity needs the OIDC issuer"
            raise InvalidRequest("workload_identity", self.workload_identity, rule)
        _tags("tags", self.tags)
        _several("roles", self.roles, AksRole, least=0, most=POOLS_MAX)
        if len(dict.fromkeys(self.roles)) != len(self.roles):
            raise InvalidRequest("roles", len(self.roles), "must name each role on each scope once")
        self._check_pools()

    def _check_pools(self) -> None:
        _several("pools", self.pools, AksPool, least=1, most=POOLS_MAX)
        names = [pool.name for pool in self.pools]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InvalidRequest("pools", twice, "must be named differently from each other")
        if not any(pool.mode is PoolMode.SYSTEM for pool in self.pools):
            rule = f"must hold at least one pool of mode {PoolMode.SYSTEM}: AKS runs its own pods there"
            raise InvalidRequest("pools", ", ".join(names), rule)
        if self.nodes > CLUSTER_NODES_MAX:
            rule = f"must hold at most {CLUSTER_NODES_MAX} nodes together"
            raise InvalidRequest("pools", f"{self.nodes} nodes", rule)

    @property
    def nodes(self) -> int:
        return sum(pool.count for pool in self.pools)


POOL_KEYS = tuple(each.name for each in fields(AksPool))
ROLE_KEYS = tuple(each.name for each in fields(AksRole))


# --- Azure's rules -------------------------------------------------------------------------------


def group_name(field: str, value: object) -> str:
    rule = (
        f"must be 1 to {GROUP_NAME_MAX} letters, digits, underscores, hyphens, periods or parentheses,"
        " and not end with a period"
    )
    return checks.matching(field, value, _GROUP_NAME, rule, longest=GROUP_NAME_MAX)


def pool_name(field: str, value: object) -> str:
    rule = f"must be 1 to {POOL_NAME_MAX} lower-case letters or digits, and begin with a letter"
    return checks.matching(field, value, _POOL_NAME, rule, longest=POOL_NAME_MAX)


def subscription(field: str, value: object) -> str:
    return checks.matching(
        field, value, _UUID, "must be a subscription's id, like 8d6f…-…: 32 hex digits and hyphens"
    )


def region(field: str, value: object) -> str:
    return checks.matching(
        field, value, _REGION, "must be a region's short name, like westeurope", longest=40
    )


def _resource(field: str, value: object, pattern: re.Pattern[str], what: str) -> str:
    rule = f"must be the id of {what}, like /subscriptions/…/resourceGroups/…/providers/…"
    return checks.matching(field, value, pattern, rule, longest=ID_MAX)


def _several(field: str, value: object, kind: type, *, least: int, most: int) -> None:
    if not isinstance(value, tuple) or not least <= len(value) <= most:
        shown = f"{len(value)} of them" if isinstance(value, tuple) else value
        raise InvalidRequest(field, shown, f"must be a list of {least} to {most}")
    if not all(isinstance(each, kind) for each in value):
        raise InvalidRequest(field, value, f"must be a list of {kind.__name__}")


def _taints(field: str, value: object) -> None:
    _several(field, value, str, least=0, most=LABELS_MAX)
    for each in value if isinstance(value, tuple) else ():
        checks.matching(
            field, each, _TAINT, "must each be like gpu=true:NoSchedule (or PreferNoSchedule, NoExecute)"
        )


def _labels(field: str, value: object) -> None:
    rule = "must have names and values that Kubernetes takes as labels: 63 letters, digits, . _ or - at most"
    for name, text in _pairs(field, value, most=LABELS_MAX):
        checks.matching(field, name, _LABEL_NAME, rule)
        checks.matching(field, text, _LABEL_VALUE, rule)
        if str(name).startswith(_RESERVED_LABELS):
            raise InvalidRequest(field, name, "must not begin like Kubernetes' and Azure's own labels")


def _tags(field: str, value: object) -> None:
    rule = f"must have names of 1 to {TAG_NAME_MAX} characters without < > % & \\ ? /"
    for name, text in _pairs(field, value, most=TAGS_MAX):
        if not isinstance(name, str) or not 0 < len(name) <= TAG_NAME_MAX or _UNTAGGABLE.search(name):
            raise InvalidRequest(field, name, rule)
        if not isinstance(text, str) or len(text) > TAG_VALUE_MAX:
            raise InvalidRequest(field, text, f"must have values of at most {TAG_VALUE_MAX} characters")
        if name.lower().startswith((OURS, *_RESERVED_TAGS)):
            raise InvalidRequest(field, name, f"must not begin with {OURS} or one of Azure's own words")


def _pairs(field: str, value: object, *, most: int) -> Iterable[tuple[object, object]]:
    if not isinstance(value, Mapping) or len(value) > most:
        shown = f"{len(value)} of them" if isinstance(value, Mapping) else value
        raise InvalidRequest(field, shown, f"must be a table of at most {most} names and values")
    return value.items()
