"""A cluster: its record, its states, and how the record may change.

Owns what Muster remembers of a cluster and the tags that mark what Muster made. Its provider declares the
steps of the work: forward while it is made, then, from any of them, through those that take it away. What is
going to be asked for is written first, so that a replica that takes over knows what may exist.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from muster.domain.errors import IllegalTransition
from muster.domain.ids import ClusterId, InstallationId, OperationId
from muster.domain.reasons import Reason
from muster.domain.steps import Step

INSTALLATION_TAG = "muster-installation"
CLUSTER_TAG = "muster-cluster"


class ClusterState(StrEnum):
    CREATING = "creating"
    READY = "ready"
    FAILED = "failed"
    """What there is was left: on purpose, or because it can't be removed."""
    DELETING = "deleting"
    DELETED = "deleted"


LIVE_CLUSTERS = tuple(state for state in ClusterState if state is not ClusterState.DELETED)


@dataclass(frozen=True, slots=True)
class ClusterStep(Step):
    """One step of the work on a cluster, as its provider declares it."""

    stage: str = ""
    """What the record says while it is at this step. Unique among all steps of the provider."""
    long: bool = False
    """The provider works by itself for minutes: since when is shown, and how long it takes is learned."""
    visible: bool = True
    """There is a cluster, or will be one: its pools and its link are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSteps:
    """All steps of a provider, in order. The last one of each is the end."""

    create: tuple[ClusterStep, ...]
    delete: tuple[ClusterStep, ...]
    """Also of what undoes a create."""

    def undo(self, stage: str) -> bool:
        """Whether a stage takes a cluster away."""
        return any(step.stage == stage for step in self.delete)

    def of(self, stage: str) -> tuple[ClusterStep, ...]:
        """The steps among which a stage is."""
        return self.delete if self.undo(stage) else self.create

    def number(self, stage: str) -> int:
        """Which step it is, from 1 on. Raises IllegalTransition: the provider has no such step."""
        for number, step in enumerate(self.of(stage), 1):
            if step.stage == stage:
                return number
        raise IllegalTransition(f"no step of the provider has the stage {stage!r}")

    def at(self, stage: str) -> ClusterStep:
        return self.of(stage)[self.number(stage) - 1]

    def ends(self, stage: str) -> bool:
        return self.number(stage) == len(self.of(stage))

    def after(self, stage: str) -> ClusterStep:
        """The next step. A stage never goes back. Raises IllegalTransition after the last one."""
        if self.ends(stage):
            raise IllegalTransition(f"no step follows the stage {stage!r}")
        return self.of(stage)[self.number(stage)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    id: ClusterId
    name: str
    template: str
    revision: int
    provider: str
    state: ClusterState = ClusterState.CREATING
    stage: str
    """The step of its provider at which the work stands."""
    version: int = 1
    created_at: float
    stage_at: float
    """When it came to its stage."""
    operation_id: OperationId
    """What works, or last worked, on it."""
    group_asked_at: float | None = None
    """When the provider was asked for the group that the cluster goes into, because there was none."""
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
    """Rights of the cluster that the provider didn't take back, and why. The end of the work names them."""


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


def changed(cluster: Cluster, *, now: float, stage: str | None = None, **facts: object) -> ClusterChange:
    """The record with other facts; a new stage begins now."""
    entered = {} if stage is None or stage == cluster.stage else {"stage": stage, "stage_at": now}
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


def _no_advice(_reason: Reason, _message: str) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """What a template comes to for one cluster, as its provider reads it."""

    place: Place
    region: str
    nodes: int
    keep_failed: bool = False
    """A create that fails leaves what there is, to be looked at; otherwise it is removed."""
    advice: Callable[[Reason, str], str] = _no_advice
    """What else to say about a refusal: which limit, and how far it falls short."""


def tags_of(cluster: Cluster, installation: InstallationId) -> dict[str, str]:
    return {INSTALLATION_TAG: installation, CLUSTER_TAG: cluster.id}


def is_ours(tags: Mapping[str, str], cluster: Cluster, installation: InstallationId) -> bool:
    """Whether this record's cluster, and no other of ours, made it."""
    wanted = tags_of(cluster, installation)
    return all(tags.get(name) == value for name, value in wanted.items())
