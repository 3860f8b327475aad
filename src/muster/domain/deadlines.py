"""How long anything may take. One resolver for boots; one table of defaults for every state.

Owns every number that is a time limit of a node or an operation. Everything that waits or judges asks
here, so that no second clock can drift.
"""

from dataclasses import dataclass, fields

from muster.domain import checks
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Kind, Operation
from muster.domain.reasons import Reason
from muster.domain.template import Runtime, TemplateSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Settings, in seconds."""

    boot: float = 720.0
    """Clears the slowest healthy boots seen (about 7 min) with room for their tail."""
    launching: float = 120.0
    """One provider call with its repeats."""
    release_operation: float = 180.0
    releasing: float = 120.0
    after_operation: float = 60.0
    """An attached node outlives its operation's deadline by this much, so that the driver judges first."""
    attention: float = 600.0
    """A machine that resists its termination for longer than this needs a person."""
    stale_after: float = 20.0
    """A heartbeat older than this is not fresh: four beats of five seconds."""
    dead_after: float = 60.0
    """Stale for this much longer, an idle or attached node is called dead."""

    def __post_init__(self) -> None:
        for each in fields(self):
            checks.seconds(each.name, getattr(self, each.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    seconds: float
    source: str


ATTACH_TIMEOUTS: dict[Runtime, float] = {Runtime.EXEC: 30.0, Runtime.GITHUB: 120.0, Runtime.SERVICE: 60.0}
BOOT_TIMEOUTS: dict[Runtime, float] = {}
"""Runtimes whose boot is known to be longer than the global default."""


def resolve_boot(
    *, timeout: float | None, template: TemplateSpec, limits: Limits, learned: Deadline | None = None
) -> Deadline:
    """Until `booted`: request > template > runtime > global; learning only ever lengthens."""
    if timeout is not None:
        return Deadline(seconds=timeout, source="request")
    if template.provision_timeout is not None:
        resolved = Deadline(seconds=template.provision_timeout, source="template")
    elif template.runtime in BOOT_TIMEOUTS:
        resolved = Deadline(seconds=BOOT_TIMEOUTS[template.runtime], source="runtime")
    else:
        resolved = Deadline(seconds=limits.boot, source="default")
    if learned is not None and learned.seconds > resolved.seconds:
        return learned
    return resolved


def attach_timeout(template: TemplateSpec) -> float:
    return template.attach_timeout or ATTACH_TIMEOUTS[template.runtime]


def for_provision(
    *, timeout: float | None, queue_timeout: float, template: TemplateSpec, limits: Limits
) -> Deadline:
    """A whole provision. An explicit timeout is hard and covers everything, the queue included."""
    boot = resolve_boot(timeout=timeout, template=template, limits=limits)
    if timeout is not None:
        return boot
    total = queue_timeout + limits.launching + boot.seconds + attach_timeout(template)
    return Deadline(seconds=total, source=boot.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue:
    """A node that is past its deadline, and what that means for it."""

    reason: Reason
    fails: bool
    """True: it goes to `failed` (it may still be rescued). False: it is condemned."""


_REASONS = {
    NodeState.RUNNING: Reason.MAX_RUNTIME,
    NodeState.IDLE: Reason.IDLE_TIMEOUT,
    NodeState.RELEASING: Reason.RELEASE_TIMEOUT,
}


def judge(node: Node, operation: Operation | None, *, now: float, limits: Limits) -> Overdue | float | None:
    """What its time means for a node: Overdue, or the later deadline that holds now, or None: in time.

    An attached node's time is its operation's, read from the operation at this moment; a node of a
    committed operation isn't judged before it runs.
    """
    if node.deadline_at is None or now < node.deadline_at:
        return None
    if node.state in (NodeState.CREATED, NodeState.CLAIMED):
        return _judge_before_commit(node, operation, now=now, limits=limits)
    if node.state is NodeState.FAILED:
        return Overdue(reason=node.reason or Reason.BOOT_TIMEOUT, fails=False)
    if node.state in _REASONS:
        return Overdue(reason=_REASONS[node.state], fails=False)
    return None


def _judge_before_commit(
    node: Node, operation: Operation | None, *, now: float, limits: Limits
) -> Overdue | float | None:
    if operation is not None and operation.committed:
        return None
    if not node.up:
        return Overdue(reason=Reason.BOOT_TIMEOUT, fails=True)
    if node.attached or node.assignment_id is None:
        until = (operation.deadline_at if operation else 0.0) + limits.after_operation
        return until if now < until else Overdue(reason=Reason.DEADLINE_EXCEEDED, fails=False)
    return Overdue(reason=Reason.ATTACH_FAILED, fails=False)


def dead_man(
    node: Node,
    operation: Operation | None,
    template: TemplateSpec,
    *,
    max_runtime: float,
    now: float,
    limits: Limits,
) -> float:
    """Seconds after which a node that hears nothing more stops by itself.

    Covers the latest time to which its state can be extended. Under an assignment it covers the whole
    provision and the longest run, so a partition after the hand-over can't kill a valid run.
    """
    if node.assignment_id is not None and operation is not None:
        latest = max(operation.deadline_at + max_runtime, node.deadline_at or 0.0)
    elif node.state is NodeState.IDLE:
        latest = max(node.deadline_at or 0.0, now + template.idle_timeout)
    else:
        latest = max(node.deadline_at or 0.0, node.entered_at + max_boot(template, limits))
    return max(0.0, latest - now) + template.rescue_window + DEAD_MAN_GRACE


DEAD_MAN_GRACE = 300.0


def max_boot(template: TemplateSpec, limits: Limits) -> float:
    """The ceiling for a boot, extensions included: twice what resolves, unless the template says."""
    if template.max_provision_timeout is not None:
        return template.max_provision_timeout
    return 2 * resolve_boot(timeout=None, template=template, limits=limits).seconds


def for_operation(kind: Kind, *, template: TemplateSpec | None, limits: Limits) -> Deadline:
    """Operations other than provisions."""
    if kind is Kind.RELEASE or template is None:
        return Deadline(seconds=limits.release_operation, source="default")
    boot = resolve_boot(timeout=None, template=template, limits=limits)
    return Deadline(seconds=limits.launching + boot.seconds, source=boot.source)
