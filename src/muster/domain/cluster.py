"""A cluster: its record, its states, and how the record may change.

Owns what Muster remembers of a cluster and the tags that mark what Muster made. The stage is where its work
stands: forward while it is made, then, from any of them, through the stages that take it away. What is going
to be asked for is written first, so that a replica that takes over knows what may exist.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from muster.domain.errors import IllegalTransition
from muster.domain.ids import ClusterId, InstallationId, OperationId
from muster.domain.reasons import Reason
from muster.domain.steps import CLUSTER_CREATE_STEPS, CLUSTER_DELETE_STEPS, Steps

INSTALLATION_TAG = "muster-installation"
CLUSTER_TAG = "muster-cluster"
GROUP_TAG = "muster-group"
MADE = "made"


class ClusterState(StrEnum):
    CREATING = "creating"
    READY = "ready"
    FAILED = "failed"
    """What there is was left: on purpose, or because it can't be removed."""
    DELETING = "deleting"
    DELETED = "deleted"


LIVE_CLUSTERS = tuple(state for state in ClusterState if state is not ClusterState.DELETED)


class Stage(StrEnum):
    PREPARING = "preparing"
    GROUP = "group"
    CREATING = "creating"
    GRANTING = "granting"
    DONE = "done"
    ABORTING = "aborting"
    REVOKING = "revoking"
    DELETING = "deleting"
    CLEARING = "clearing"
    GONE = "gone"


_ORDER = tuple(Stage)
MAKING = _ORDER[: _ORDER.index(Stage.DONE)]
UNDOING = _ORDER[_ORDER.index(Stage.ABORTING) :]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    id: ClusterId
    name: str
    template: str
    revision: int
    provider: str
    state: ClusterState = ClusterState.CREATING
    stage: Stage = Stage.PREPARING
    version: int = 1
    created_at: float
    stage_at: float
    """When it came to its stage."""
    operation_id: OperationId
    """What works, or last worked, on it."""
    group_asked_at: float | None = None
    """There was no resource group, and we set out to make it."""
    asked_at: float | None = None
    """When the provider was last asked to make the cluster."""
    answered: bool = True
    """Whether what came of that is known: it was refused, or was seen. If not, it may still come true, even
    if it was accepted."""
    principal: str = ""
    kubelet: str = ""
    """Who the cluster, and who its nodes are to the provider."""
    fqdn: str = ""
    kubernetes_version: str = ""
    ready_at: float | None = None
    reason: Reason | None = None
    detail: str = ""
    roles_left: str = ""
    """Role assignments that the provider kept, and why. The end of the work names them."""

    @property
    def followed(self) -> bool:
        """Whether the provider works on something that a token leads to. Otherwise the token is deleted."""
        return self.state is ClusterState.CREATING and self.stage in MAKING


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterChange:
    """A guarded write. `before` None: a new record."""

    before: Cluster | None
    after: Cluster
    at: float
    actor: str = ""
    """Who asked for it; empty: Muster itself."""

    def __post_init__(self) -> None:
        if self.before is None:
            return
        if self.after.version != self.before.version + 1:
            raise IllegalTransition(f"cannot write cluster {self.before.id}: its version must rise by one")
        restarts = self.after.stage is Stage.ABORTING and self.after.state is ClusterState.DELETING
        if _ORDER.index(self.after.stage) < _ORDER.index(self.before.stage) and not restarts:
            raise IllegalTransition(f"cannot write cluster {self.before.id}: its stage would go back")


def changed(cluster: Cluster, *, now: float, stage: Stage | None = None, **facts: object) -> ClusterChange:
    """The record with other facts; a new stage begins now."""
    entered = {} if stage is None or stage is cluster.stage else {"stage": stage, "stage_at": now}
    # mypy can't know the fields that callers name; the dataclass refuses what it doesn't have.
    after = replace(cluster, version=cluster.version + 1, **entered, **facts)  # type: ignore[arg-type]  # named by callers
    return ClusterChange(before=cluster, after=after, at=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a cluster is, as its provider names it."""

    account: str
    group: str
    name: str
    group_id: str
    cluster_id: str
    link: str
    """Where people see it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleWanted:
    """A right that the cluster gets on something else."""

    role: str
    scope: str
    """The id of what it is granted on."""
    by_nodes: bool
    """Whether the nodes use it, rather than the cluster itself."""


def _no_advice(_reason: Reason, _message: str) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """What a template comes to for one cluster, as its provider reads it."""

    place: Place
    region: str
    pools: tuple[tuple[str, int], ...]
    """Name and number of nodes of each."""
    roles: tuple[RoleWanted, ...] = ()
    keep_failed: bool = False
    """A create that fails leaves what there is, to be looked at; otherwise it is removed."""
    service: str = "cluster"
    """What the provider calls such a cluster, for `SERVICE state: Creating · MANAGER 1m 40s`."""
    manager: str = "asked"
    create_steps: Steps = CLUSTER_CREATE_STEPS
    delete_steps: Steps = CLUSTER_DELETE_STEPS
    """The same steps, in the provider's words."""
    advice: Callable[[Reason, str], str] = _no_advice
    """What else to say about a refusal: which limit, and how far it falls short."""

    @property
    def nodes(self) -> int:
        return sum(count for _, count in self.pools)


def tags_of(cluster: Cluster, installation: InstallationId) -> dict[str, str]:
    return {INSTALLATION_TAG: installation, CLUSTER_TAG: cluster.id}


def is_ours(tags: Mapping[str, str], cluster: Cluster, installation: InstallationId) -> bool:
    """Whether this record's cluster, and no other of ours, made it."""
    wanted = tags_of(cluster, installation)
    return all(tags.get(name) == value for name, value in wanted.items())


def group_tags(installation: InstallationId) -> dict[str, str]:
    """Return the tags of a group that this installation makes, the same for all its clusters.

    Two clusters that ask at the same time must ask for the same, because a provider may not know "only if
    there is none".
    """
    return {INSTALLATION_TAG: installation, GROUP_TAG: MADE}


def made_group(tags: Mapping[str, str], installation: InstallationId) -> bool:
    """Whether this installation made the group, for whichever of its clusters."""
    return all(tags.get(name) == value for name, value in group_tags(installation).items())


def assignment_name(cluster: Cluster, wanted: RoleWanted) -> str:
    """Return a name that is the same for the same cluster, role and scope.

    So granting twice is granting once, and a grant can be found when nothing else is left.
    """
    text = f"{cluster.id}/{wanted.role}/{wanted.scope.lower()}"
    digest = hashlib.sha256(text.encode()).hexdigest()
    # A UUID of version 8, which is for values of one's own making.
    return f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-a{digest[17:20]}-{digest[20:32]}"
