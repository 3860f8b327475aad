"""What becomes of a cluster next: pure decisions over a look at the provider.

Making it: name free → resource group → asked for → built → roles granted. Taking it away, whether it was
cancelled, failed or is to be deleted: stopped → roles taken back → deleted → its group cleared. Only what
carries our tags is ever touched; a look that failed decides nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from muster.domain import cluster_sight as sights
from muster.domain.cluster import Cluster, ClusterPlan, Place, RoleWanted, Stage, is_ours, made_group
from muster.domain.cluster_sight import Group, Sight
from muster.domain.deadlines import HARD
from muster.domain.errors import ProviderError
from muster.domain.ids import InstallationId
from muster.domain.operation import Operation, Verdict
from muster.domain.reasons import Reason

SURPRISE = 60.0
"""Seconds for which a request whose answer was lost, or that isn't visible yet, may still come true."""
GROUP_WAIT = 120.0
"""Seconds that a provider takes at most to know a new resource group everywhere."""
PRINCIPAL_WAIT = 60.0
"""Seconds that a provider takes at most to know a new identity everywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    operation: Operation
    cluster: Cluster
    plan: ClusterPlan
    installation: InstallationId
    now: float
    due_at: float
    """When the operation's deadline counts as passed."""

    @property
    def place(self) -> Place:
        return self.plan.place

    @property
    def overdue(self) -> bool:
        return self.now >= self.due_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Go:
    """On to the next stage."""

    stage: Stage
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """Ask the provider for what this stage is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail:
    verdict: Verdict


Decision = Go | Act | Wait | Fail
EMPTYING = Wait(message="waiting until the resource group is empty")
"""Our own cluster is still listed in its group."""


def stopped(operation: Operation) -> bool:
    return operation.cancel_requested_at is not None or operation.verdict is not None


def too_late(at: Situation) -> Fail:
    took = at.now - at.operation.created_at
    message = (
        f"it was not ready {took:.0f} s after it was asked for (deadline from {at.operation.deadline_source})"
    )
    return Fail(verdict=Verdict(reason=Reason.DEADLINE_EXCEEDED, message=message))


def overdue(at: Situation) -> Fail | None:
    """It has to wait again, and there is no more time for that. Work that is done in time is not judged."""
    return too_late(at) if at.overdue else None


def unseen(at: Situation) -> Fail | None:
    """A look failed. Time in which nothing could be seen is no failure, unless the caller said so."""
    return too_late(at) if at.overdue and at.operation.deadline_source == HARD else None


def refused(at: Situation, error: ProviderError) -> Fail:
    """What the provider says, and what that means for this cluster."""
    message = str(error)
    advice = at.plan.advice(error.reason, message)
    if advice:
        message = f"{message}; {advice}"
    return Fail(verdict=Verdict(reason=error.reason, message=message))


# --- making --------------------------------------------------------------------------------------


def prepare(at: Situation, sight: Sight | None) -> Decision:
    if sight is not None and not _ours(at, sight):
        return _taken(at)
    return too_late(at) if at.overdue else Go(stage=Stage.GROUP)


def ensure_group(at: Situation, group: Group | None) -> Decision:
    """A group that is there is taken as it is: never put again, whatever its region or tags."""
    if group is None or sights.stopping(group.state):
        if at.overdue:
            return too_late(at)
        if group is not None:
            return Wait(message=f"waiting until the old resource group {at.place.group} is gone")
        return Act()
    if not sights.succeeded(group.state or sights.SUCCEEDED):
        return too_late(at) if at.overdue else Wait(message=f"resource group: {group.state}")
    elsewhere = group.region.lower() != at.plan.region
    note = (
        f"the resource group is in {group.region}; the cluster goes to {at.plan.region}" if elsewhere else ""
    )
    return Go(stage=Stage.CREATING, note=note)


def build(at: Situation, sight: Sight | None, outcome: bool | ProviderError | None) -> Decision:
    """`outcome`: of the work that was accepted: True done, False going on, or why it failed. None: it isn't
    known that any was accepted; then, if nothing is seen, it is asked for (again)."""
    if sight is not None and not _ours(at, sight):
        return _taken(at)
    if sight is not None and complete(sight):
        return Go(stage=Stage.GRANTING)
    broken = _broken(at, sight, outcome)
    if broken is not None:
        return broken
    if at.overdue:
        return too_late(at)
    return Act() if sight is None and outcome is None else Wait(message="")


def group_is_new(at: Situation) -> bool:
    """Whether a part of the provider may not know the group yet that we saw before we asked."""
    return at.cluster.stage is Stage.CREATING and at.now < at.cluster.stage_at + GROUP_WAIT


def complete(sight: Sight) -> bool:
    built = sights.succeeded(sight.state) and sights.running(sight.power)
    return built and all(sights.succeeded(pool.state) for pool in sight.pools)


def _broken(at: Situation, sight: Sight | None, outcome: bool | ProviderError | None) -> Fail | None:
    if isinstance(outcome, ProviderError):
        return refused(at, outcome)
    if sight is None:
        return None
    lost = [pool for pool in sight.pools if sights.failed(pool.state)]
    if not sights.failed(sight.state) and not (lost and sights.succeeded(sight.state)):
        return None
    if sight.problem is not None:
        return refused(at, sight.problem)
    which = ", ".join(f"pool {pool.name} is {pool.state}" for pool in lost)
    state = f"{sight.state}{f' ({which})' if which else ''}"
    message = f"cannot create the cluster: its state is {state}, without a cause"
    return Fail(verdict=Verdict(reason=Reason.PROVIDER_ERROR, message=message))


def principal_for(wanted: RoleWanted, cluster: Cluster) -> str:
    """Some rights are used by the cluster itself, the others by its nodes."""
    return cluster.kubelet or cluster.principal if wanted.by_nodes else cluster.principal


def principal_lost(at: Situation, error: ProviderError, *, since: float) -> Fail | None:
    """A principal that isn't known yet is waited for, but not for ever. `since`: when that was first heard;
    time without a request doesn't count."""
    if at.now - since < PRINCIPAL_WAIT:
        return None
    return Fail(verdict=Verdict(reason=Reason.PROVIDER_ERROR, message=f"{error}; it was tried for a minute"))


# --- taking away ---------------------------------------------------------------------------------


def stop(at: Situation, sight: Sight | None) -> Decision:
    if sight is None and _may_come(at):
        return Wait(message="waiting until the cluster that was asked for is visible")
    if sight is None or not _ours(at, sight) or not sights.in_progress(sight.state):
        return Go(stage=Stage.REVOKING)
    return Go(stage=Stage.REVOKING) if sights.stopping(sight.state) else Act()


def remove(at: Situation, sight: Sight | None) -> Decision:
    if sight is None:
        if _may_come(at):
            return Wait(message="waiting until it is certain that no cluster comes of the request")
        return Go(stage=Stage.CLEARING)
    if not _ours(at, sight):
        return Go(
            stage=Stage.CLEARING, note=f"cluster {at.place.name} was kept: it has no tag of this installation"
        )
    if sights.stopping(sight.state):
        return Wait(message="")
    return Act()


def clear(at: Situation, group: Group | None, holdings: Sequence[str], neighbours: Sequence[str]) -> Decision:
    """The group goes only if it says that we made it, nothing is in it, and nothing of ours comes into it.

    `neighbours`: the names of our other clusters there, in whatever state.
    """
    name, asked = at.place.group, at.cluster.group_asked_at
    if group is None:
        if asked is not None and at.now < asked + SURPRISE and at.cluster.asked_at is None:
            return Wait(message="waiting until it is certain that no resource group comes any more")
        return Go(stage=Stage.GONE)
    if not made_group(group.tags, at.installation):
        return Go(stage=Stage.GONE, note=f"resource group {name} was kept: Muster didn't make it")
    if neighbours:
        return Go(
            stage=Stage.GONE, note=f"resource group {name} was kept: it contains cluster {neighbours[0]}"
        )
    if sights.stopping(group.state):
        return Wait(message=f"resource group: {group.state}")
    others = [each for each in holdings if each.lower() != at.place.cluster_id.lower()]
    if others:
        return Go(stage=Stage.GONE, note=f"resource group {name} was kept: it holds {others[0]}")
    return EMPTYING if holdings else Act()


def _may_come(at: Situation) -> bool:
    """Whether a cluster that isn't seen may only not be seen yet: for a while a provider may not show what
    it has accepted."""
    asked = at.cluster.asked_at
    return asked is not None and not at.cluster.answered and at.now < asked + SURPRISE


def _ours(at: Situation, sight: Sight) -> bool:
    return is_ours(sight.tags, at.cluster, at.installation)


def _taken(at: Situation) -> Fail:
    message = (
        f"cannot make cluster {at.place.name}: resource group {at.place.group} holds one of that name"
        " that this request didn't make; choose another name or group, or delete it"
    )
    return Fail(verdict=Verdict(reason=Reason.NAME_TAKEN, message=message))
