"""How the work on a cluster is shown: its steps, a chip per pool, and how long Azure has been at it."""

from collections.abc import Sequence
from statistics import median

from muster.domain import cluster_sight as sights
from muster.domain.cluster import UNDOING, Cluster, Stage
from muster.domain.cluster_sight import PoolSight, Sight
from muster.domain.cluster_spec import ClusterSpec
from muster.domain.clustering import Situation
from muster.domain.operation import Kind, Operation
from muster.domain.progress import Part, Progress, Tone, guessed, percent

CREATE_STEPS = (
    ("creating_cluster", "Preparing the request"),
    ("ensuring_resource_group", "Ensuring the resource group"),
    ("arm_create_or_update", "Creating the AKS cluster (5–10 min)"),
    ("ensuring_rbac", "Granting role assignments"),
    ("completed", "Cluster ready"),
)
DELETE_STEPS = (
    ("stopping", "Stopping what runs"),
    ("removing_rbac", "Removing role assignments"),
    ("deleting_cluster", "Deleting the AKS cluster (3–8 min)"),
    ("clearing_resource_group", "Clearing the resource group"),
    ("completed", "Cluster deleted"),
)
_MAKING = (Stage.PREPARING, Stage.GROUP, Stage.CREATING, Stage.GRANTING, Stage.DONE)
_ARM_STEP = 3
EXPECTED = 450.0
"""Seconds that a create takes, until there is history."""
EXPECTED_DELETE = 300.0
LEARNED_FROM = 20
"""The last so many creates of a template say how long the next one takes."""


def expected(history: Sequence[float]) -> float | None:
    """What a create usually takes; None: nothing is known."""
    return median(history[:LEARNED_FROM]) if history else None


def shown(
    at: Situation, *, message: str, parts: tuple[Part, ...] | None = None, history: Sequence[float] = ()
) -> Progress:
    """Where the work stands. `parts` None: those that were shown last."""
    last = at.operation.progress
    chips = parts if parts is not None else last.parts if last is not None else ()
    progress = _stepped(at, history)
    usual = expected(history)
    end = None if usual is None or at.cluster.stage in UNDOING else at.operation.created_at + usual
    return Progress(
        step=progress[0],
        total_steps=len(CREATE_STEPS),
        phase=progress[1],
        label=progress[2],
        message=message,
        percent=progress[3],
        expected_at=end if end is not None and end > at.now else None,
        parts=chips,
        provider_since=at.cluster.asked_at if at.cluster.stage is Stage.CREATING else None,
        link=at.place.portal,
    )


def _stepped(at: Situation, history: Sequence[float]) -> tuple[int, str, str, float]:
    stage, total = at.cluster.stage, len(CREATE_STEPS)
    if at.operation.kind is Kind.CLUSTER_DELETE:
        step = UNDOING.index(stage) + 1
        phase, label = DELETE_STEPS[step - 1]
        fraction = (
            guessed(elapsed=at.now - at.cluster.stage_at, expected=EXPECTED_DELETE)
            if step == _ARM_STEP
            else 0.0
        )
        return step, phase, label, _share(step, total, fraction)
    if stage in UNDOING:
        # It keeps the step in which it was stopped; what is undone has a count of its own.
        last = at.operation.progress
        place = min(UNDOING.index(stage), len(DELETE_STEPS) - 2)
        phase, label = DELETE_STEPS[place]
        undoing = f"Undoing {place + 1}/{len(DELETE_STEPS) - 1} · {label}"
        return (last.step if last else 1), f"undo_{phase}", undoing, (last.percent if last else 0.0)
    step = _MAKING.index(stage) + 1
    phase, label = CREATE_STEPS[step - 1]
    since = at.cluster.asked_at
    elapsed = at.now - since if step == _ARM_STEP and since is not None else 0.0
    return (
        step,
        phase,
        label,
        _share(step, total, guessed(elapsed=elapsed, expected=expected(history) or EXPECTED)),
    )


def _share(step: int, total: int, fraction: float) -> float:
    return 100.0 if step == total else percent(step=step, total_steps=total, fraction=fraction)


def as_failed(operation: Operation, message: str) -> Progress | None:
    """The step in which it was stopped, by its own name, whatever was undone after that."""
    last = operation.progress
    if last is None or operation.kind is Kind.CLUSTER_DELETE:
        return last
    phase, label = CREATE_STEPS[last.step - 1]
    return Progress(
        step=last.step,
        total_steps=last.total_steps,
        phase=phase,
        label=label,
        message=message,
        percent=last.percent,
        parts=last.parts,
        link=last.link,
    )


def step_name(stage: Stage) -> str:
    """For the words of a failure: which step it was."""
    step = _MAKING.index(stage) + 1
    return f"step {step}/{len(CREATE_STEPS)}, {CREATE_STEPS[step - 1][1]}"


# --- words and chips -----------------------------------------------------------------------------


def arm_state(cluster: Cluster, sight: Sight | None, *, now: float, seen: bool = True) -> str:
    """`AKS state: Creating · ARM 1m 40s`, or as much of it as is known."""
    if not seen:
        state = sights.UNKNOWN
    elif sight is None:
        state = "not visible yet"
    else:
        state = sight.state or sights.UNKNOWN
    said = f"AKS state: {state}"
    if sight is not None and sights.succeeded(sight.state) and not sights.running(sight.power):
        said += f" · power {sight.power or sights.UNKNOWN}"
    since = cluster.asked_at if cluster.stage is Stage.CREATING else cluster.stage_at
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
            state=pool.state or sights.UNKNOWN,
            tone=_tone(pool.state),
            detail=f"{pool.count}n",
        )
        for pool in pools
    )


def planned(spec: ClusterSpec) -> tuple[Part, ...]:
    """The pools that were asked for, before anything is seen of them."""
    return tuple(
        Part(id=pool.name, name=pool.name, state="planned", tone=Tone.PENDING, detail=f"{pool.count}n")
        for pool in spec.pools
    )


def unknown(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Chips of which nothing is known at present, except that they are there."""
    return tuple(
        Part(id=part.id, name=part.name, state=sights.UNKNOWN, tone=Tone.WARNING, detail=part.detail)
        for part in parts
    )


def _tone(state: str) -> Tone:
    if not state:
        return Tone.PENDING
    if sights.succeeded(state):
        return Tone.SUCCESS
    return Tone.DANGER if sights.failed(state) else Tone.ACTIVE
