"""How long anything may take. One resolver for boots; one table of defaults for every state.

Owns every number that is a time limit of a node or an operation. Everything that waits or judges asks
here, so that no second clock can drift.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from muster.domain import checks
from muster.domain import node as nodes
from muster.domain.boot import Learned
from muster.domain.lifecycle import NodeState
from muster.domain.node import HOLD, INTERRUPTION, Node, NodeChange
from muster.domain.operation import CLUSTERS, Kind, Operation
from muster.domain.pace import Pace, stale_after
from muster.domain.reasons import ENDINGS, Reason
from muster.domain.requests import ProvisionRequest, RunRequest
from muster.domain.template import Runtime, TemplateSpec

_COUNTS = ("beats_per_second", "queued_per_owner")
"""The limits that are no seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Settings, in seconds; how much one owner may have waiting, and how many beats may come."""

    boot: float = 720.0
    """Clears the slowest healthy boots seen (about 7 min) with room for their tail."""
    launching: float = 120.0
    """One provider call with its repeats."""
    cluster: float = 3600.0
    """A cluster's making or deleting: several times what clouds usually take."""
    release_operation: float = 180.0
    releasing: float = 120.0
    after_operation: float = 60.0
    """An attached node outlives its operation's deadline by this much, so that the driver judges first."""
    attention: float = 600.0
    """A machine that resists its termination for longer than this needs a person."""
    boot_exec: float | None = None
    boot_service: float | None = None
    """For a runtime whose boots are known to take longer (or shorter) than the others'."""
    boot_runtimes: Mapping[str, float] = field(default_factory=dict)
    """The same for runtimes of integrations: boot_NAME."""
    attach_runtimes: Mapping[str, float] = field(default_factory=dict)
    """How long an attach may take, for runtimes of integrations that name a time of their own."""
    stall_after: float = 300.0
    """A boot that shows no sign of advance for this long is stuck. A silent download of two minutes isn't."""
    extension: float = 60.0
    """A boot that still advances at its deadline is given this much more at a time."""
    beat_seconds: float = 5.0
    """How often a node beats, while there are few. More often is noticed sooner, and costs more."""
    beats_per_second: int = 500
    """Above it nodes beat more slowly. One replica spends about a tenth of a core on so many. It is for all
    replicas together: with more of them, allow more."""
    stale_after: float = 20.0
    """A heartbeat older than this is not fresh: four beats of five seconds. Longer while nodes beat more
    slowly: see `muster.domain.pace`."""
    service_stale_after: float = 60.0
    """The same for apps, which share their time with the heartbeats: never less than three of their own."""
    dead_after: float = 60.0
    """Stale for this much longer, an idle or attached node is called dead."""
    lost_after: float = 300.0
    """A running node that is offline for this long is given up, and its owner told."""
    max_transition: float = 120.0
    """Who has been beating for this long since it joined is over its start-up, whatever it says."""
    return_grace: float = 60.0
    """Grace in seconds after time in which no replica watched. Nodes reconnect in half of it."""
    queued_per_owner: int = 1000
    """Operations of one owner that wait for room. A longer line is a mistake, and slows others down."""
    probe_every: float = 10.0
    probe_timeout: float = 5.0
    probe_recovery: float = 5.0
    """An offline service must answer probes for this long before it is called back."""

    def __post_init__(self) -> None:
        for name in _COUNTS:
            checks.whole(name, getattr(self, name), least=1, most=checks.MACHINES_MAX)
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name in _COUNTS:
                continue
            if isinstance(value, Mapping):
                for name, seconds in value.items():
                    checks.seconds(f"{each.name.removesuffix('runtimes')}{name}", seconds)
                continue
            if value is not None or each.default is not None:
                checks.seconds(each.name, value)

    @property
    def silence_limit(self) -> float:
        """Return the seconds of silence after which a node counts as dead."""
        return self.stale_after + self.dead_after

    def boot_for(self, runtime: str) -> float | None:
        own = {Runtime.EXEC: self.boot_exec, Runtime.SERVICE: self.boot_service}
        return own[Runtime(runtime)] if runtime in own else self.boot_runtimes.get(runtime)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    seconds: float
    source: str


ATTACH_TIMEOUTS: Mapping[str, float] = {Runtime.EXEC: 30.0, Runtime.SERVICE: 60.0}
ATTACH_KIT = 120.0
"""For runtimes of integrations that name no time of their own: another service must see the node."""
HARD = "request"
"""The source of a deadline that the caller named: neither learning nor extension passes it."""
COLLECTING = 45.0
"""A failed node is kept for at least this long, so that what is known of its failure can be collected."""


def resolve_boot(
    *, timeout: float | None, template: TemplateSpec, limits: Limits, learned: Learned | None = None
) -> Deadline:
    """Return the boot deadline: request, else template, else runtime, else default. Learning only lengthens
    it."""
    if timeout is not None:
        return Deadline(seconds=timeout, source=HARD)
    if template.provision_timeout is not None:
        resolved = Deadline(seconds=template.provision_timeout, source="template")
    elif template.clusters:
        resolved = Deadline(seconds=limits.cluster, source="default")
    elif (by_runtime := limits.boot_for(template.runtime)) is not None:
        resolved = Deadline(seconds=by_runtime, source="runtime")
    else:
        resolved = Deadline(seconds=limits.boot, source="default")
    if template.max_provision_timeout is not None and template.max_provision_timeout < resolved.seconds:
        resolved = Deadline(seconds=template.max_provision_timeout, source="template")
    if template.learn and learned is not None and learned.seconds > resolved.seconds:
        return Deadline(seconds=learned.seconds, source=f"learned ({learned.basis})")
    return resolved


def attach_timeout(template: TemplateSpec, limits: Limits | None = None) -> float:
    """Return how long an attach may take. `limits` holds the times that integrations set for
    their runtimes."""
    own = {**(limits.attach_runtimes if limits is not None else {}), **ATTACH_TIMEOUTS}
    return template.attach_timeout or own.get(template.runtime, ATTACH_KIT)


def attached_until(operation: Operation | None, limits: Limits, *, now: float) -> float:
    """Return until when an attached node waits for its hand-over."""
    return (operation.deadline_at if operation is not None else now) + limits.after_operation


def for_provision(
    *,
    timeout: float | None,
    queue_timeout: float,
    template: TemplateSpec,
    limits: Limits,
    learned: Learned | None = None,
) -> Deadline:
    """Return the deadline of a provision. An explicit timeout is hard and covers everything, the queue
    included."""
    boot = resolve_boot(timeout=timeout, template=template, limits=limits, learned=learned)
    if timeout is not None:
        return boot
    total = queue_timeout + limits.launching + boot.seconds + attach_timeout(template, limits)
    return Deadline(seconds=total, source=boot.source)


def for_run(provision: Deadline, *, max_runtime: float, limits: Limits) -> Deadline:
    """Return the deadline of a run: provision, longest run and release. An explicit timeout covers it all."""
    if provision.source == HARD:
        return provision
    return Deadline(seconds=provision.seconds + max_runtime + limits.launching, source=provision.source)


CLOCK_ERROR = 120.0
"""A stored time that lies more seconds ahead is a wrong clock's, which was set back since. The clocks of
replicas differ by less."""


def last_tick(before: float, *, now: float) -> float:
    """Return when a replica watched last: the later time, unless a wrong clock told it."""
    return now if before > now + CLOCK_ERROR else max(before, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Since when the world has been watched without a gap, and when the watch before that broke off."""

    since: float
    away_from: float | None = None
    """None: there was no gap."""
    pace: Pace | None = None
    """How often nodes beat; None: as the limits say."""

    def ticked(
        self, last: float, *, now: float, gap: float, grace: float, beat: float | None = None
    ) -> "Watch":
        """Return the watch after a tick; `last`: the tick before. After a gap it begins anew. If it broke
        off within the grace of the gap before, the time away counts from that one. After a clock was set
        back it begins anew as well. `beat`: the interval that nodes are told from now on; None: as before."""
        watch = self if beat is None else replace(self, pace=self._paced(beat, now))
        if last_tick(last, now=now) < last:
            return replace(watch, since=now, away_from=now, pace=watch.pace and watch.pace.heard_by(now))
        if now - last <= gap:
            return watch
        owed = self.away_from is not None and last < self.since + grace
        return replace(watch, since=now, away_from=self.away_from if owed else last)

    def _paced(self, beat: float, now: float) -> Pace:
        return Pace.of(beat) if self.pace is None else self.pace.changed(beat, now=now)

    def beat_seconds(self, limits: Limits) -> float:
        """Return the interval that nodes are told."""
        return limits.beat_seconds if self.pace is None else self.pace.beat_seconds

    def limits(self, limits: Limits, *, now: float) -> Limits:
        """Return the limits as the present pace of beats makes them."""
        if self.pace is None or self.pace.in_use(now) <= limits.beat_seconds == self.pace.beat_seconds:
            return limits
        silence = max(limits.stale_after, stale_after(self.pace.in_use(now)))
        return replace(limits, beat_seconds=self.beat_seconds(limits), stale_after=silence)

    def due(self, deadline_at: float, limits: Limits) -> float:
        """Return when a deadline counts as passed.

        One that passed while no replica watched, or just after, gets a bounded grace: a node that met it
        could not report it.
        """
        if self.away_from is None or deadline_at <= self.away_from:
            return deadline_at
        return max(deadline_at, self.since + limits.return_grace)

    def unbroken_from(self, at: float) -> bool:
        """Return whether replicas have watched without a gap since then."""
        return self.away_from is None or self.since <= at


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue:
    """A node that is past its deadline, and what that means for it."""

    reason: Reason
    fails: bool
    """True: it goes to `failed` (it may still be rescued). False: it is condemned."""
    detail: str = field(default="", compare=False)
    still_since: float | None = None
    """It is judged for having stood still since then: a sign of advance after that spares it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extended:
    """A later deadline that holds now."""

    deadline_at: float
    source: str
    detail: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlineContext:
    """What a node's judge looks at beside the node."""

    operation: Operation | None
    template: TemplateSpec
    advanced_at: float | None
    """When its boot last moved; None: it never joined."""
    watch: Watch
    now: float
    limits: Limits


_REASONS = {
    NodeState.RUNNING: Reason.MAX_RUNTIME,
    NodeState.IDLE: Reason.IDLE_TIMEOUT,
    NodeState.RELEASING: Reason.RELEASE_TIMEOUT,
}
_BY_SOURCE = {INTERRUPTION: Reason.INTERRUPTED, HOLD: Reason.HOLD_OVER}
"""Deadlines that mean something else than the state's own."""
RESCUABLE = (Reason.BOOT_TIMEOUT, Reason.BOOT_STALLED)
"""Failures of time alone: a boot that ends after all disproves them."""


def judge(node: Node, at: DeadlineContext) -> Overdue | Extended | None:
    """Judge a node's time: Overdue, or a later deadline that holds now, or None: in time.

    An attached node's time is its operation's, as read at this moment. A node of a committed operation isn't
    judged before it runs, unless the operation ended without handing it over.
    """
    if node.state in (NodeState.CREATED, NodeState.CLAIMED):
        if at.operation is not None and at.operation.committed and not at.operation.ended:
            return None
        return _judge_boot(node, at) if not node.up else _judge_attaching(node, at)
    if not _passed(node, at):
        return None
    if node.state is NodeState.FAILED:
        return Overdue(reason=node.reason or Reason.BOOT_TIMEOUT, fails=False, detail=_overrun(node, at.now))
    if node.state in _REASONS:
        reason = _BY_SOURCE.get(node.deadline_source, _REASONS[node.state])
        return Overdue(reason=reason, fails=False, detail=_overrun(node, at.now))
    return None


def _passed(node: Node, at: DeadlineContext) -> bool:
    return node.deadline_at is not None and at.now >= at.watch.due(node.deadline_at, at.limits)


def _judge_boot(node: Node, at: DeadlineContext) -> Overdue | Extended | None:
    """Judge a boot: fail one that stands still early; give one that advances time up to its ceiling."""
    stall_after = at.template.stall_after or at.limits.stall_after
    if at.advanced_at is not None and at.now - max(at.advanced_at, at.watch.since) > stall_after:
        stood = f"{at.now - at.advanced_at:.0f} s without a sign of advance in {_whereabouts(node)}"
        return Overdue(reason=Reason.BOOT_STALLED, fails=True, detail=stood, still_since=at.advanced_at)
    if node.deadline_at is None or not _passed(node, at):
        return None
    ceiling = node.entered_at + max_boot(at.template, at.limits)
    later = min(at.now + at.limits.extension, ceiling)
    recently = min(stall_after, (node.deadline_at - node.entered_at) / 2)
    advancing = at.advanced_at is not None and at.now - max(at.advanced_at, at.watch.since) <= recently
    extensible = node.deadline_source != HARD and later > max(node.deadline_at, at.now)
    if advancing and extensible:
        detail = f"still advancing in {_whereabouts(node)}"
        return Extended(deadline_at=later, source=EXTENSION, detail=detail)
    # Had it advanced, it would have been given more time: so an advance until the write spares it.
    still_since = at.advanced_at if extensible else None
    return Overdue(
        reason=Reason.BOOT_TIMEOUT, fails=True, detail=_overrun(node, at.now), still_since=still_since
    )


def _judge_attaching(node: Node, at: DeadlineContext) -> Overdue | Extended | None:
    if not _passed(node, at):
        return None
    if node.attached or node.assignment_id is None:
        until = (at.operation.deadline_at if at.operation else 0.0) + at.limits.after_operation
        if at.now < until:
            return Extended(deadline_at=until, source="operation")
        return Overdue(reason=Reason.DEADLINE_EXCEEDED, fails=False, detail=_overrun(node, at.now))
    return Overdue(reason=Reason.ATTACH_FAILED, fails=False, detail=_overrun(node, at.now))


def _whereabouts(node: Node) -> str:
    return f"{node.phase} ({node.step})" if node.step else node.phase or "its boot"


def _overrun(node: Node, now: float) -> str:
    return f"{now - node.entered_at:.0f} s in {node.state}, deadline from {node.deadline_source}"


EXTENSION = "extension"


def failed_until(reason: Reason, template: TemplateSpec, *, now: float) -> float:
    """Return until when a failed node is kept: for its rescue, if possible, and for its evidence."""
    window = template.rescue_window if reason in RESCUABLE else 0.0
    return now + max(window, COLLECTING)


_NOTHING_LEFT = (*ENDINGS, Reason.DUPLICATE_JOIN)
"""Failures that leave no machine to look at, or one that is not ours."""


def failed(
    node: Node,
    *,
    reason: Reason,
    template: TemplateSpec,
    operation: Operation | None,
    now: float,
    detail: str = "",
    still_since: float | None = None,
) -> NodeChange:
    """Fail a node, and keep it as long as its rescue, its evidence and a look that was asked for take."""
    until = failed_until(reason, template, now=now)
    hold = 0.0 if reason in _NOTHING_LEFT else hold_of(operation)
    return nodes.fail(
        node,
        now=now,
        reason=reason,
        deadline_at=max(until, now + hold),
        detail=detail,
        still_since=still_since,
        hold=now + hold > until,
    )


def hold_of(operation: Operation | None) -> float:
    """Return how long nodes of an operation are kept for a look if they fail."""
    request = None if operation is None else operation.request
    if isinstance(request, RunRequest):
        request = request.provision
    return (request.hold_on_failure or 0.0) if isinstance(request, ProvisionRequest) else 0.0


def rescuable(node: Node, template: TemplateSpec) -> bool:
    """Return whether a failed node may yet be rescued. If not, it is kept only for its evidence."""
    return node.reason in RESCUABLE and template.rescue_window > 0


def rescue_closes(node: Node, template: TemplateSpec) -> float:
    """Return when the rescue ends. As for other deadlines, time without a watching replica may be added."""
    return node.entered_at + template.rescue_window


def rescued_late(node: Node, template: TemplateSpec, *, now: float, closes: float) -> float | None:
    """Return by how many seconds a failed node that booted now was late; None: it can't be rescued.

    `closes`: when its window counts as closed.
    """
    hopeless = node.state is not NodeState.FAILED or not rescuable(node, template)
    return None if hopeless or now > closes else now - node.entered_at


def later_deadline(
    operation: Operation, nodes: Sequence[Node], template: TemplateSpec, limits: Limits | None = None
) -> float | None:
    """Return the later deadline that an operation's booting nodes give it; None: its own holds.

    A node's extension moves the operation that waits for it, unless the caller named a hard limit.
    """
    if operation.deadline_source == HARD:
        return None
    given = [node.deadline_at or 0.0 for node in nodes if not node.up and node.deadline_source == EXTENSION]
    latest = max(given, default=0.0) + attach_timeout(template, limits)
    return latest if latest > operation.deadline_at else None


def dead_man(
    node: Node,
    operation: Operation | None,
    template: TemplateSpec,
    *,
    max_runtime: float,
    now: float,
    limits: Limits,
) -> float:
    """Return the seconds after which a node without contact stops by itself.

    Covers the latest time to which its state can be extended. Under an assignment it covers the whole
    provision and the longest run. So a partition after the hand-over can't kill a valid run.
    """
    if node.assignment_id is not None and operation is not None:
        boot = (
            0.0
            if node.up
            else node.entered_at + max_boot(template, limits) + attach_timeout(template, limits)
        )
        latest = max(max(operation.deadline_at, boot) + max_runtime, node.deadline_at or 0.0)
    elif node.state is NodeState.IDLE:
        latest = max(node.deadline_at or 0.0, now + template.idle_timeout)
    else:
        latest = max(node.deadline_at or 0.0, node.entered_at + max_boot(template, limits))
    return max(0.0, latest - now) + template.rescue_window + DEAD_MAN_GRACE


DEAD_MAN_GRACE = 300.0


def first_dead_man(template: TemplateSpec, limits: Limits) -> float:
    """Return the dead-man time of a machine without contact yet, counted from its start."""
    return max_boot(template, limits) + template.rescue_window + DEAD_MAN_GRACE


def max_boot(template: TemplateSpec, limits: Limits) -> float:
    """Return the ceiling for a boot, extensions included: twice what resolves, unless the template says."""
    if template.max_provision_timeout is not None:
        return template.max_provision_timeout
    return 2 * resolve_boot(timeout=None, template=template, limits=limits).seconds


OVERDUE_AFTER = 600.0
"""Seconds past its deadline after which a replica ends an operation from outside. Giving nodes back takes
at most 180 of them."""
OVERDUE_AFTER_CLUSTER = 6 * 3600.0
"""What a failed create has made is undone past its deadline, for as long as the cloud takes."""


def overdue_after(kind: Kind) -> float:
    """Return by how many seconds an operation may outlive its deadline before the failsafe ends it."""
    return OVERDUE_AFTER_CLUSTER if kind in CLUSTERS else OVERDUE_AFTER


def for_operation(
    kind: Kind, *, template: TemplateSpec | None, limits: Limits, learned: Learned | None = None
) -> Deadline:
    """Return the deadline of an operation other than a provision."""
    if kind is Kind.RELEASE or template is None:
        return Deadline(seconds=limits.release_operation, source="default")
    if template.clusters:
        return resolve_boot(timeout=None, template=template, limits=limits)
    boot = resolve_boot(timeout=None, template=template, limits=limits, learned=learned)
    return Deadline(seconds=limits.launching + boot.seconds, source=boot.source)
