"""The steps of a create and of a delete, and what is said and shown while they run."""

from collections.abc import Sequence
from enum import StrEnum

from muster.domain.cluster import Cluster, ClusterStep, ClusterSteps
from muster.domain.cluster_decisions import UNKNOWN
from muster.domain.progress import Part, Tone
from muster.integrations.aks import sight as sights
from muster.integrations.aks.sight import PoolSight, Sight
from muster.integrations.aks.spec import AksSpec


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


def _step(
    stage: Stage, phase: str, label: str, seconds: float = 0.0, *, long: bool = False, visible: bool = True
) -> ClusterStep:
    return ClusterStep(phase, label, seconds, stage=stage.value, long=long, visible=visible)


STEPS = ClusterSteps(
    create=(
        _step(Stage.PREPARING, "creating_cluster", "Preparing the request", 5.0),
        _step(Stage.GROUP, "ensuring_resource_group", "Ensuring the resource group", 15.0),
        _step(
            Stage.CREATING, "arm_create_or_update", "Creating the AKS cluster (5–10 min)", 450.0, long=True
        ),
        _step(Stage.GRANTING, "ensuring_rbac", "Granting role assignments", 30.0),
        _step(Stage.DONE, "completed", "Cluster ready"),
    ),
    delete=(
        _step(Stage.ABORTING, "stopping", "Stopping what runs", 15.0),
        _step(Stage.REVOKING, "removing_rbac", "Removing role assignments", 10.0),
        _step(Stage.DELETING, "deleting_cluster", "Deleting the AKS cluster (3–8 min)", 300.0),
        _step(Stage.CLEARING, "clearing_resource_group", "Clearing the resource group", 60.0, visible=False),
        _step(Stage.GONE, "completed", "Cluster deleted", visible=False),
    ),
)


def state_words(cluster: Cluster, sight: Sight | None, *, now: float, seen: bool = True) -> str:
    """`AKS state: Creating · ARM 1m 40s`, or as much of it as is known."""
    if not seen:
        state = UNKNOWN
    elif sight is None:
        state = "not visible yet"
    else:
        state = sight.state or UNKNOWN
    said = f"AKS state: {state}"
    if sight is not None and sights.succeeded(sight.state) and not sights.running(sight.power):
        said += f" · power {sight.power or UNKNOWN}"
    since = cluster.asked_at if cluster.stage == Stage.CREATING else cluster.stage_at
    return said if since is None else f"{said} · ARM {spent(now - since)}"


def spent(seconds: float) -> str:
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h {minutes:02d}m"
    return f"{minutes}m {rest:02d}s" if minutes else f"{rest}s"


def chips(pools: Sequence[PoolSight]) -> tuple[Part, ...]:
    return tuple(
        Part(
            id=pool.name,
            name=pool.name,
            state=pool.state or UNKNOWN,
            tone=_tone(pool.state),
            detail=f"{pool.count}n",
        )
        for pool in pools
    )


def planned(spec: AksSpec) -> tuple[Part, ...]:
    """The pools that were asked for, before anything is seen of them."""
    return tuple(
        Part(id=pool.name, name=pool.name, state="planned", tone=Tone.PENDING, detail=f"{pool.count}n")
        for pool in spec.pools
    )


def _tone(state: str) -> Tone:
    if not state:
        return Tone.PENDING
    if sights.succeeded(state):
        return Tone.SUCCESS
    return Tone.DANGER if sights.failed(state) else Tone.ACTIVE
