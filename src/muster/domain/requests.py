"""What callers ask for: one validated value per kind of operation."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.domain import checks
from muster.domain.command import Execution
from muster.domain.errors import InvalidRequest
from muster.domain.ids import AssignmentId, ClusterId, OperationId
from muster.domain.serialization import FLAT, field_names
from muster.domain.template import RESOURCE_CLASSES, UsageClass

HOLD_MAX = 86400.0
"""Seconds for which a node may be kept for a look at a time. `muster extend` adds to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisionRequest:
    """N nodes for a run, all or nothing. Fields left None follow the template."""

    template: str
    count: int
    run: str
    owner: str = "default"
    """The trust domain of the run, e.g. a repository: nodes are reused inside it."""
    resource_class: str | None = None
    usage: tuple[UsageClass, ...] | None = None
    instance_types: tuple[str, ...] | None = None
    max_runtime: float | None = None
    timeout: float | None = None
    """A hard deadline: neither learning nor extension passes it."""
    queue_timeout: float = 0.0
    """How long to wait for room under the caps; 0 fails at once."""
    hold_on_failure: float | None = None
    """How long a node that failed, or whose command failed, is kept for a look; None: not at all."""
    tables: Mapping[str, Any] = field(default_factory=dict, metadata=FLAT)
    """What it says to integrations: plain data, by the name of the table. Each reads its own."""

    def __post_init__(self) -> None:
        checks.name("template", self.template)
        checks.whole("count", self.count, least=1, most=checks.COUNT_MAX)
        checks.text("run", self.run)
        checks.text("owner", self.owner)
        if self.resource_class is not None:
            checks.known("resource_class", self.resource_class, RESOURCE_CLASSES)
        if self.usage is not None:
            checks.words("usage", self.usage, UsageClass)
        if self.instance_types is not None:
            checks.patterns("instance_types", self.instance_types)
        if self.max_runtime is not None:
            checks.seconds("max_runtime", self.max_runtime)
        if self.timeout is not None:
            checks.seconds("timeout", self.timeout)
        checks.seconds("queue_timeout", self.queue_timeout, zero=True)
        if self.hold_on_failure is not None:
            checks.seconds("hold_on_failure", self.hold_on_failure, most=HOLD_MAX)
        object.__setattr__(self, "tables", checks.tables(self.tables, taken=field_names(type(self))))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRequest:
    """Give back what a provision got: all of it, or the named assignments."""

    operation_id: OperationId
    assignment_ids: tuple[AssignmentId, ...] | None = None
    already: bool = field(default=False, compare=False)
    """Nothing of it was held any more when this was asked for. No part of what was asked."""

    def __post_init__(self) -> None:
        checks.text("operation_id", self.operation_id)
        if self.assignment_ids is not None:
            self._check_assignments(self.assignment_ids)
        checks.flag("already", self.already)

    def _check_assignments(self, ids: object) -> None:
        if not isinstance(ids, tuple) or not 1 <= len(ids) <= checks.COUNT_MAX:
            raise InvalidRequest("assignment_ids", ids, f"must be a list of 1 to {checks.COUNT_MAX} ids")
        for each in ids:
            checks.text("assignment_ids", each)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefillRequest:
    """Warm nodes for a template's pool. Takes what the provider gives."""

    template: str
    revision: int
    count: int

    def __post_init__(self) -> None:
        checks.name("template", self.template)
        checks.whole("revision", self.revision, least=1, most=checks.MACHINES_MAX)
        checks.whole("count", self.count, least=1, most=checks.COUNT_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """Provision, execute the same on every node, give the nodes back."""

    provision: ProvisionRequest
    execution: Execution


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCreateRequest:
    """A whole cluster, of a template whose provider makes clusters."""

    name: str
    template: str
    timeout: float | None = None
    """A hard deadline."""

    def __post_init__(self) -> None:
        checks.cluster_name("name", self.name)
        checks.name("template", self.template)
        if self.timeout is not None:
            checks.seconds("timeout", self.timeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDeleteRequest:
    cluster_id: ClusterId

    def __post_init__(self) -> None:
        checks.text("cluster_id", self.cluster_id)


Request = (
    ProvisionRequest
    | ReleaseRequest
    | RefillRequest
    | RunRequest
    | ClusterCreateRequest
    | ClusterDeleteRequest
)
