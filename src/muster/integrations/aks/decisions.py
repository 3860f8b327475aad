"""What becomes of a cluster next: pure decisions over a look at Azure.

Making it: name free → resource group → asked for → built → roles granted. Taking it away, whether it was
cancelled, failed or is to be deleted: stopped → roles taken back → deleted → its group cleared. Only what
carries our tags is ever touched; a look that failed decides nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from muster.domain.cluster import INSTALLATION_TAG, is_ours
from muster.domain.cluster_decisions import Done, Fail, Outcome, Situation, Wait, refused, too_late
from muster.domain.errors import ProviderError
from muster.domain.ids import InstallationId
from muster.domain.operation import Verdict
from muster.domain.reasons import Reason
from muster.integrations.aks import sight as sights
from muster.integrations.aks.sight import Group, Sight
from muster.integrations.aks.steps import Stage, chips, state_words

GROUP_TAG = "muster-group"
MADE = "made"
SURPRISE = 60.0
"""Seconds for which a request whose answer was lost, or that isn't visible yet, may still come true."""
GROUP_WAIT = 120.0
"""Seconds that Azure takes at most to know a new resource group everywhere."""
PRINCIPAL_WAIT = 60.0
"""Seconds that Azure takes at most to know a new identity everywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """Ask Azure for what this step is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """Look again. Without a message, the cluster's state is shown."""

    message: str = ""


Decision = Done | Act | Later | Fail
EMPTYING = Later(message="waiting until the resource group is empty")
"""Our own cluster is still listed in its group."""


def outcome(at: Situation, decision: Decision, sight: Sight | None, *, every: float) -> Outcome:
    """What a decision comes to for the core: it waits for the next look, and shows what this one saw."""
    if isinstance(decision, Done | Fail):
        return decision
    said = decision.message if isinstance(decision, Later) else ""
    message = said or state_words(at.cluster, sight, now=at.now)
    pools = chips(sight.pools) if sight is not None and sight.pools else None
    return Wait(seconds=every, message=message, parts=pools)


# --- making --------------------------------------------------------------------------------------


def prepare(at: Situation, sight: Sight | None) -> Decision:
    if sight is not None and not _ours(at, sight):
        return _taken(at)
    return too_late(at) if at.overdue else Done()


def ensure_group(at: Situation, group: Group | None) -> Decision:
    """A group that is there is taken as it is: never put again, whatever its region or tags."""
    if group is None or sights.stopping(group.state):
        if at.overdue:
            return too_late(at)
        if group is not None:
            return Later(message=f"waiting until the old resource group {at.place.group} is gone")
        return Act()
    if not sights.succeeded(group.state or sights.SUCCEEDED):
        return too_late(at) if at.overdue else Later(message=f"resource group: {group.state}")
    elsewhere = group.region.lower() != at.plan.region
    note = (
        f"the resource group is in {group.region}; the cluster goes to {at.plan.region}" if elsewhere else ""
    )
    return Done(note=note)


def build(at: Situation, sight: Sight | None, outcome: bool | ProviderError | None) -> Decision:
    """`outcome`: of the work that was accepted: True done, False going on, or why it failed. None: it isn't
    known that any was accepted; then, if nothing is seen, it is asked for (again)."""
    if sight is not None and not _ours(at, sight):
        return _taken(at)
    if sight is not None and complete(sight):
        return Done()
    broken = _broken(at, sight, outcome)
    if broken is not None:
        return broken
    if at.overdue:
        return too_late(at)
    return Act() if sight is None and outcome is None else Later()


def group_is_new(at: Situation) -> bool:
    """Whether a part of Azure may not know the group yet that we saw before we asked."""
    return at.cluster.stage == Stage.CREATING and at.now < at.cluster.stage_at + GROUP_WAIT


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


def principal_lost(at: Situation, error: ProviderError, *, since: float) -> Fail | None:
    """A principal that isn't known yet is waited for, but not for ever. `since`: when that was first heard;
    time without a request doesn't count."""
    if at.now - since < PRINCIPAL_WAIT:
        return None
    return Fail(verdict=Verdict(reason=Reason.PROVIDER_ERROR, message=f"{error}; it was tried for a minute"))


# --- taking away ---------------------------------------------------------------------------------


def stop(at: Situation, sight: Sight | None) -> Decision:
    if sight is None and _may_come(at):
        return Later(message="waiting until the cluster that was asked for is visible")
    if sight is None or not _ours(at, sight) or not sights.in_progress(sight.state):
        return Done()
    return Done() if sights.stopping(sight.state) else Act()


def remove(at: Situation, sight: Sight | None) -> Decision:
    if sight is None:
        if _may_come(at):
            return Later(message="waiting until it is certain that no cluster comes of the request")
        return Done()
    if not _ours(at, sight):
        return Done(note=f"cluster {at.place.name} was kept: it has no tag of this installation")
    if sights.stopping(sight.state):
        return Later()
    return Act()


def clear(at: Situation, group: Group | None, holdings: Sequence[str], neighbours: Sequence[str]) -> Decision:
    """The group goes only if it says that we made it, nothing is in it, and nothing of ours comes into it.

    `neighbours`: the names of our other clusters there, in whatever state.
    """
    name, asked = at.place.group, at.cluster.group_asked_at
    if group is None:
        if asked is not None and at.now < asked + SURPRISE and at.cluster.asked_at is None:
            return Later(message="waiting until it is certain that no resource group comes any more")
        return Done()
    if not made_group(group.tags, at.installation):
        return Done(note=f"resource group {name} was kept: Muster didn't make it")
    if neighbours:
        return Done(note=f"resource group {name} was kept: it contains cluster {neighbours[0]}")
    if sights.stopping(group.state):
        return Later(message=f"resource group: {group.state}")
    others = [each for each in holdings if each.lower() != at.place.cluster_id.lower()]
    if others:
        return Done(note=f"resource group {name} was kept: it holds {others[0]}")
    return EMPTYING if holdings else Act()


def _may_come(at: Situation) -> bool:
    """Whether a cluster that isn't seen may only not be seen yet: for a while Azure may not show what
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


def group_tags(installation: InstallationId) -> dict[str, str]:
    """Return the tags of a group that this installation makes, the same for all its clusters.

    Two clusters that ask at the same time must ask for the same, because Azure doesn't know "only if there
    is none" for groups.
    """
    return {INSTALLATION_TAG: installation, GROUP_TAG: MADE}


def made_group(tags: Mapping[str, str], installation: InstallationId) -> bool:
    """Whether this installation made the group, for whichever of its clusters."""
    return all(tags.get(name) == value for name, value in group_tags(installation).items())
