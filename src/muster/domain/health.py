"""How a node feels: what it says, what is seen of it, and who wins.

Owns every rule of health as one pure function over a node's vitals. Health is not a state: it never decides
who may use a node, and nothing here changes a node's record. Only the leased status duty applies a judgement,
by a write guarded with the version of the vitals, so that replicas can't disagree.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from muster.domain.deadlines import Limits
from muster.domain.ids import NodeId


class Health(StrEnum):
    STARTING = "starting"
    READY = "ready"
    DEGRADED = "degraded"
    OFFLINE = "offline"


class HealthSource(StrEnum):
    """Whose evidence decided.

    Operators don't set health. They terminate or drain a node instead.
    """

    HEARTBEAT = "heartbeat"
    PROBE = "probe"
    RECONCILE = "reconcile"


PROBE_FAILURES = 3
"""Failed probes in a row that count as down."""
PROBE_ROUNDS = 3
"""A passed probe speaks for its node for this many rounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """What is known of how a node feels. A row of its own: a sign of life never moves the node's version."""

    node_id: NodeId
    boot_id: str = ""
    joined_at: float | None = None
    """Since when it has been in its present boot. Joining again in the same boot doesn't move it."""
    seen_at: float | None = None
    """Its last heartbeat, by our clock. Nothing else moves it."""
    stale_after: float | None = None
    """For a node that beats at its own pace; None: the setting."""
    said: Health | None = None
    """Its own last word in this boot."""
    said_reason: str = ""
    activity: int = 0
    """Grows with what its boot does: output, CPU time, bytes received."""
    advanced_at: float | None = None
    """When its boot last moved: a phase, a step, or activity."""
    probe_failures: int = 0
    """In a row, in the watch of the last one: failures from before a gap in the watch are forgotten."""
    probe_passing_since: float | None = None
    """The first of the passed probes in a row; None after a failed one."""
    probed_at: float | None = None
    news: bool = False
    """It, or a probe of it, said something that was not judged yet."""
    health: Health = Health.STARTING
    health_reason: str = ""
    health_source: HealthSource = HealthSource.RECONCILE
    health_since: float = 0.0
    health_version: int = 0


HEALTH_FIELDS = ("health", "health_reason", "health_source", "health_since", "health_version")
"""What a judgement sets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthChange:
    before: Vitals
    after: Vitals
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    health: Health
    source: HealthSource
    reason: str = ""


def judge(vitals: Vitals, *, now: float, observing_since: float, limits: Limits) -> HealthChange | None:
    """Return the change of health that the evidence demands; None: the stored health is right.

    `observing_since`: no node is called offline for time in which no replica watched.
    """
    verdict = _verdict(vitals, now=now, observing_since=observing_since, limits=limits)
    if verdict is None or (verdict.health, verdict.reason) == (vitals.health, vitals.health_reason):
        return None
    if verdict.health is vitals.health and verdict.source is not HealthSource.HEARTBEAT:
        return None  # the same finding in other words
    after = replace(
        vitals,
        health=verdict.health,
        health_reason=verdict.reason,
        health_source=verdict.source,
        health_since=now if verdict.health is not vitals.health else vitals.health_since,
        health_version=vitals.health_version + 1,
    )
    return HealthChange(before=vitals, after=after, at=now)


def silent_for(vitals: Vitals, *, now: float, observing_since: float) -> float:
    """Return the seconds without a heartbeat in which a replica would have received one."""
    return now - max(vitals.seen_at or 0.0, vitals.joined_at or 0.0, observing_since)


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Of a node that serves a run and does not answer."""

    since: float
    """Its last sign of life."""
    given_up_at: float
    """When Muster gives it up, unless it answers before."""


def silence(vitals: Vitals, *, now: float, observing_since: float, limits: Limits) -> Silence | None:
    """Return since when the node does not answer; None: it answers. Known before its health is
    judged anew."""
    limit = vitals.stale_after or limits.stale_after
    offline = vitals.health is Health.OFFLINE
    quiet = silent_for(vitals, now=now, observing_since=observing_since)
    if not offline and quiet <= limit:
        return None
    judged_at = vitals.health_since if offline else now - quiet + limit
    since = vitals.seen_at or vitals.joined_at or judged_at
    return Silence(since=since, given_up_at=judged_at + limits.lost_after)


def fresh(vitals: Vitals, *, now: float, limits: Limits) -> bool:
    """Return whether the last heartbeat is proof of life: exactly at the limit it still is."""
    return vitals.seen_at is not None and now - vitals.seen_at <= _stale_after(vitals, limits)


def proof_of_service(vitals: Vitals, *, now: float, limits: Limits) -> str | None:
    """Say what proves that an app serves, whatever it says itself; None: nothing does yet.

    Never asked of machines: the end of their boot script is what counts, and a heartbeat says nothing of it.
    """
    if _passing(vitals, now=now, limits=limits):
        return "it answers probes"
    if not fresh(vitals, now=now, limits=limits):
        return None
    if vitals.said in (Health.READY, Health.DEGRADED):
        return f"the node reports {vitals.said}"
    return _beating_past_start_up(vitals, now=now, limits=limits)


def _beating_past_start_up(vitals: Vitals, *, now: float, limits: Limits) -> str | None:
    """Return why a node counts as started: it beats, and its start-up time is over. None: not yet."""
    age = now - (vitals.joined_at if vitals.joined_at is not None else now)
    return f"heartbeats arrive, {age:.0f} s after it joined" if age > limits.max_transition else None


def _stale_after(vitals: Vitals, limits: Limits) -> float:
    return limits.stale_after if vitals.stale_after is None else vitals.stale_after


def _verdict(vitals: Vitals, *, now: float, observing_since: float, limits: Limits) -> _Verdict | None:
    beating = fresh(vitals, now=now, limits=limits)
    passing = _passing(vitals, now=now, limits=limits)
    if not beating and not passing:
        return _without_life(vitals, now=now, observing_since=observing_since, limits=limits)
    if vitals.said in (Health.DEGRADED, Health.OFFLINE):
        # Its own bad news in this boot is kept: no probe knows better.
        return _Verdict(health=vitals.said, source=HealthSource.HEARTBEAT, reason=vitals.said_reason)
    if beating and vitals.said is Health.READY:
        return _Verdict(health=Health.READY, source=HealthSource.HEARTBEAT, reason=vitals.said_reason)
    return _still_starting(vitals, now=now, beating=beating, passing=passing, limits=limits)


def _without_life(vitals: Vitals, *, now: float, observing_since: float, limits: Limits) -> _Verdict | None:
    silence = silent_for(vitals, now=now, observing_since=observing_since)
    if silence > _stale_after(vitals, limits):
        reason = f"no heartbeat for {silence:.0f} s"
        return _Verdict(health=Health.OFFLINE, source=HealthSource.RECONCILE, reason=reason)
    # Failures of an earlier watch are old news: no heartbeat has had a chance to veto them since.
    watched = vitals.probed_at is not None and vitals.probed_at >= observing_since
    if watched and vitals.probe_failures >= PROBE_FAILURES:
        reason = f"{vitals.probe_failures} probes in a row failed"
        return _Verdict(health=Health.OFFLINE, source=HealthSource.PROBE, reason=reason)
    return None


def _still_starting(
    vitals: Vitals, *, now: float, beating: bool, passing: bool, limits: Limits
) -> _Verdict | None:
    """Return the verdict for a node that reports `starting` or nothing. Ready and degraded stay."""
    if vitals.health in (Health.READY, Health.DEGRADED):
        return None
    if passing and _recovered(vitals, now=now, limits=limits):
        return _Verdict(health=Health.READY, source=HealthSource.PROBE, reason="it answers probes")
    if beating and (reason := _beating_past_start_up(vitals, now=now, limits=limits)) is not None:
        return _Verdict(health=Health.READY, source=HealthSource.RECONCILE, reason=reason)
    if beating and vitals.health is Health.OFFLINE:
        back = Health.STARTING if vitals.said is Health.STARTING else Health.READY
        return _Verdict(health=back, source=HealthSource.HEARTBEAT, reason="it beats again")
    return None


def _passing(vitals: Vitals, *, now: float, limits: Limits) -> bool:
    if vitals.probe_passing_since is None or vitals.probed_at is None:
        return False
    return now - vitals.probed_at <= PROBE_ROUNDS * limits.probe_every


def _recovered(vitals: Vitals, *, now: float, limits: Limits) -> bool:
    """Return whether a node recovered. Recovery needs more than one good answer; start-up doesn't."""
    if vitals.health is not Health.OFFLINE:
        return True
    return now - (vitals.probe_passing_since or now) >= limits.probe_recovery
