"""What comes back, as frozen values. Times are ISO 8601 in UTC, as the server wrote them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Generic, TypeVar

from muster.domain.access import Role
from muster.domain.cluster import ClusterState
from muster.domain.cluster_spec import PoolMode, RoleWanted
from muster.domain.command import CommandState
from muster.domain.ec2 import Ec2Spec
from muster.domain.health import Health, HealthSource
from muster.domain.lifecycle import NodeState
from muster.domain.operation import ENDED, Kind, Member, Status
from muster.domain.progress import Tone
from muster.domain.reasons import Reason
from muster.domain.template import ResourceClass, Reuse, Runtime, TemplateSpec, UsageClass
from muster.domain.workflow import RunnerSpec

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    items: tuple[T, ...]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    id: str
    name: str
    state: str
    tone: Tone
    detail: str = ""
    count: int = 1
    since: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    section: str
    line: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Why a node failed, and the line that proves it. New causes may come, so they are plain words here."""

    cause: str
    summary: str
    evidence: Evidence | None = None
    advice: str = ""
    fatal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    name: str
    text: str = ""
    missing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle(Diagnosis):
    """A diagnosis with all that it was made from."""

    node_id: str
    reason: Reason | None = None
    detail: str = ""
    collected_at: str
    sections: tuple[Section, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    code: Reason
    message: str
    advice: str = ""
    node_id: str | None = None
    """The node whose failure it was."""
    diagnosis: Diagnosis | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    run: str | None = None
    template: str | None = None
    count: int | None = None
    result: str = ""
    cluster: str | None = None
    arm_elapsed_seconds: float | None = None
    portal_url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The payload that everybody reads."""

    operation_id: str
    kind: Kind
    status: Status
    phase: str | None = None
    label: str | None = None
    step: int | None = None
    total_steps: int | None = None
    message: str = ""
    percent: float | None = None
    eta_seconds: float | None = None
    elapsed_seconds: float = 0.0
    started_at: str
    updated_at: str
    deadline_at: str
    parts: tuple[Part, ...] = ()
    detail: Detail
    error: Failure | None = None

    @property
    def ended(self) -> bool:
        return self.status in ENDED


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Progress):
    run: str | None = None
    template: str | None = None
    idempotency_key: str | None = None
    version: int = 0
    members: tuple[Member, ...] = ()
    result: str = ""
    deadline_source: str = ""
    queued_since: str | None = None
    cancel_requested_at: str | None = None
    committed_at: str | None = None
    ended_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    operation_id: str
    status: Status
    waits_for: str
    since: str
    until: str
    position: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    id: str
    template: str
    revision: int
    provider: str
    resource_class: str
    usage_class: UsageClass
    instance_type: str
    machine_id: str
    launch_id: str | None = None
    state: NodeState
    version: int
    created_at: str
    entered_at: str
    deadline_at: str | None = None
    deadline_source: str = ""
    operation_id: str | None = None
    assignment_id: str | None = None
    run: str | None = None
    owner: str | None = None
    last_owner: str | None = None
    joined_at: str | None = None
    booted_at: str | None = None
    attached_at: str | None = None
    last_seen_at: str | None = None
    drain: bool = False
    reason: Reason | None = None
    detail: str = ""
    phase: str = ""
    step: str = ""
    address: str = ""
    health: Health | None = None
    health_reason: str = ""
    health_source: HealthSource | None = None
    health_since: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    template: str
    idle: int
    claimed: int
    running: int
    booting: int
    releasing: int
    failed: int
    terminating: int
    min_idle: int
    max_nodes: int
    used: int
    paused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    items: tuple[Pool, ...]
    used: int
    max_nodes: int
    paused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePool:
    """One node pool of a cluster."""

    name: str
    mode: PoolMode
    vm_size: str
    count: int
    taints: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    disk_gb: int | None = None
    subnet: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    subscription: str
    resource_group: str
    region: str
    pools: tuple[NodePool, ...]
    kubernetes_version: str | None = None
    identity: str = "system"
    oidc: bool = True
    workload_identity: bool = True
    tags: Mapping[str, str] = field(default_factory=dict)
    roles: tuple[RoleWanted, ...] = ()
    keep_failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    id: str
    name: str
    template: str
    revision: int
    provider: str
    state: ClusterState
    version: int
    created_at: str
    ready_at: str | None = None
    operation_id: str
    subscription: str
    resource_group: str
    region: str
    nodes: int
    kubernetes_version: str = ""
    fqdn: str = ""
    portal_url: str = ""
    reason: Reason | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDetail(Cluster):
    spec: ClusterSpec
    operation: Progress | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    name: str
    revision: int
    applied_at: str
    paused: bool
    retired: bool = False
    provider: str
    resource_class: str
    classes: tuple[ResourceClass, ...] = ()
    runtime: Runtime
    boot_script: str
    usage: tuple[UsageClass, ...]
    instance_types: tuple[str, ...]
    reuse: Reuse
    max_nodes: int
    min_idle: int
    replacements: int
    provision_timeout: float | None = None
    max_provision_timeout: float | None = None
    stall_after: float | None = None
    learn: bool = True
    attach_timeout: float | None = None
    max_runtime: float
    idle_timeout: float
    rescue_window: float
    ec2: Ec2Spec | None = None
    runner: RunnerSpec = field(default_factory=RunnerSpec)
    cluster: ClusterSpec | None = None

    @property
    def spec(self) -> TemplateSpec | None:
        """As an operator writes it. None: it makes clusters, not nodes."""
        if self.cluster is not None:
            return None
        own = {each.name for each in fields(self)} - {"cluster"}
        return TemplateSpec(
            **{each.name: getattr(self, each.name) for each in fields(TemplateSpec) if each.name in own}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    name: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    count: int
    p50: float
    p95: float
    p99: float
    longest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    node_id: str
    created_at: str
    booted_at: str | None = None
    seconds: float
    spans: tuple[Span, ...]
    usual: Distribution | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Booted:
    node_id: str
    booted_at: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BootDeadline:
    seconds: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    seconds: float
    basis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BootKind:
    instance_type: str
    total: Distribution
    phases: tuple[Span, ...]
    last: tuple[Booted, ...]
    learned: Learned | None = None
    deadline: BootDeadline


@dataclass(frozen=True, slots=True, kw_only=True)
class Boots:
    template: str
    revision: int
    deadline: BootDeadline
    ceiling_seconds: float
    kinds: tuple[BootKind, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    id: str
    max_nodes: int
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    all: bool
    templates: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    id: str
    operation_id: str
    assignment_id: str
    node_id: str
    run: str
    ordinal: int
    count: int
    argv: tuple[str, ...]
    timeout: float | None = None
    archive: str | None = None
    collect: tuple[str, ...] = ()
    state: CommandState
    version: int
    created_at: str
    started_at: str | None = None
    ended_at: str | None = None
    cancel_requested_at: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    exit_status: int | None = None
    detail: str = ""
    truncated: bool = False
    kept: int | None = None
    reason: Reason | None = None

    @property
    def ended(self) -> bool:
        return self.exit_status is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    id: str
    size: int
    expires_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    id: str
    at: str
    entity: str
    entity_id: str
    version: int
    name: str
    changes: Mapping[str, Any]
    detail: str = ""
    actor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    id: str
    name: str
    role: Role
    created_at: str
    expires_at: str | None = None
    revoked_at: str | None = None
    template: str | None = None
    """What an enrolment token is good for."""
    secret: str | None = None
    """Only in the answer to its making."""
