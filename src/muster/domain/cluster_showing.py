"""How the work on a cluster is shown: its steps, a chip per pool, and how long the provider works on it."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from muster.domain import cluster_sight as sights
from muster.domain.cluster import UNDOING, ClusterPlan, Stage
from muster.domain.cluster_sight import PoolSight, Sight
from muster.domain.clustering import Situation
from muster.domain.operation import Kind
from muster.domain.progress import Part, Progress, Tone
from muster.domain.progress_view import at_step
from muster.domain.steps import Steps

_MAKING = (Stage.PREPARING, Stage.GROUP, Stage.CREATING, Stage.GRANTING, Stage.DONE)
_CLEARED = (Stage.CLEARING, Stage.GONE)
"""The cluster is no longer there: no pool to show, nothing in the provider's console."""
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
    gone = at.cluster.stage in _CLEARED
    chips = parts if parts is not None else last.parts if last is not None else ()
    usual = expected(history)
    end = None if usual is None or at.cluster.stage in UNDOING else at.operation.created_at + usual
    return replace(
        _stepped(at, usual),
        message=message,
        expected_at=end if end is not None and end > at.now else None,
        parts=() if gone else chips,
        provider_since=at.cluster.asked_at if at.cluster.stage is Stage.CREATING else None,
        link="" if gone else at.place.link,
    )


def _stepped(at: Situation, usual: float | None) -> Progress:
    stage = at.cluster.stage
    if at.operation.kind is Kind.CLUSTER_DELETE:
        return at_step(at.plan.delete_steps, UNDOING.index(stage) + 1, since=at.cluster.stage_at)
    if stage in UNDOING:
        return _undone(at, stage)
    working = stage is Stage.CREATING
    since = at.cluster.asked_at if working and at.cluster.asked_at is not None else at.cluster.stage_at
    return at_step(
        at.plan.create_steps, _MAKING.index(stage) + 1, since=since, expected=usual if working else None
    )


def _undone(at: Situation, stage: Stage) -> Progress:
    """It keeps the step in which it was stopped, and its bar stands. What is undone has its own count."""
    last, steps = at.operation.progress, at.plan.delete_steps
    place = min(UNDOING.index(stage), len(steps) - 2)
    undoing = steps[place]
    label = f"Undoing {place + 1}/{len(steps) - 1} · {undoing.label}"
    shown = at_step(at.plan.create_steps, last.step if last else 1)
    return replace(shown, phase=f"undo_{undoing.phase}", label=label, percent=last.percent if last else 0.0)


def as_failed(at: Situation, message: str) -> Progress | None:
    """The step in which it was stopped, by its own name, whatever was undone after that."""
    last = at.operation.progress
    if last is None or at.operation.kind is Kind.CLUSTER_DELETE:
        return last
    shown = at_step(at.plan.create_steps, last.step, message=message, parts=last.parts)
    return replace(shown, percent=last.percent, link=last.link)


def step_name(steps: Steps, stage: Stage) -> str:
    """For the words of a failure: which step it was."""
    step = _MAKING.index(stage) + 1
    return f"step {step}/{len(steps)}, {steps[step - 1].label}"


# --- words and chips -----------------------------------------------------------------------------


def state_words(at: Situation, sight: Sight | None, *, seen: bool = True) -> str:
    """`SERVICE state: Creating · MANAGER 1m 40s`, or as much of it as is known."""
    cluster, plan = at.cluster, at.plan
    if not seen:
        state = sights.UNKNOWN
    elif sight is None:
        state = "not visible yet"
    else:
        state = sight.state or sights.UNKNOWN
    said = f"{plan.service} state: {state}"
    if sight is not None and sights.succeeded(sight.state) and not sights.running(sight.power):
        said += f" · power {sight.power or sights.UNKNOWN}"
    since = cluster.asked_at if cluster.stage is Stage.CREATING else cluster.stage_at
    return said if since is None else f"{said} · {plan.manager} {spent(at.now - since)}"


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


def planned(plan: ClusterPlan) -> tuple[Part, ...]:
    """The pools that were asked for, before anything is seen of them."""
    return tuple(
        Part(id=name, name=name, state="planned", tone=Tone.PENDING, detail=f"{count}n")
        for name, count in plan.pools
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
