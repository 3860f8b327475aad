"""A node, and every way its record may change.

Owns the pure half of a node write: each function takes the node as read and returns a NodeChange, or
raises IllegalTransition. The store applies a change only if the node is still as it was read
(`Conflict` otherwise), in one transaction with its event. There is no other way to write a node,
except `claim`, which belongs to the store.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from muster.domain.boot import Mark, Phase
from muster.domain.errors import IllegalTransition
from muster.domain.ids import AssignmentId, LaunchId, NodeId, OperationId
from muster.domain.lifecycle import Fact, NodeState, Verb, allowed
from muster.domain.reasons import Reason
from muster.domain.template import EXTERNAL, UsageClass

DETAIL_MAX = 300
"""Of the line that a record keeps; the whole detail is in the event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    id: NodeId
    template: str
    revision: int
    provider: str
    resource_class: str
    usage_class: UsageClass
    instance_type: str
    machine_id: str
    launch_id: LaunchId | None
    """The launch that made the machine; None only for machines found without one."""
    state: NodeState
    version: int = 1
    created_at: float
    entered_at: float
    """When it entered its present state. Nothing but a state change moves it."""
    deadline_at: float | None = None
    """The latest time it may stay in its present state; None: no limit."""
    deadline_source: str = ""
    operation_id: OperationId | None = None
    assignment_id: AssignmentId | None = None
    run: str | None = None
    owner: str | None = None
    last_owner: str | None = None
    """The trust domain of the last run that it was bound to."""
    boot_id: str | None = None
    joined_at: float | None = None
    booted_at: float | None = None
    attached_at: float | None = None
    """When it attached to its present assignment; cleared with the assignment."""
    drain: bool = False
    reason: Reason | None = None
    detail: str = ""
    """The reason in words, in one line."""
    phase: str = ""
    """How far its boot is, and in which named step of it."""
    step: str = ""
    address: str = ""
    """Where a service can be probed: the URL that it named when it enrolled."""
    left_at: float | None = None
    """When a service said that it is no node any more."""

    @property
    def up(self) -> bool:
        return self.booted_at is not None

    @property
    def held(self) -> bool:
        """Return whether the node is kept for a look."""
        return self.deadline_source == HOLD and self.state in (NodeState.FAILED, NodeState.RUNNING)

    @property
    def commandable(self) -> bool:
        """Return whether the node takes commands: it serves a run, or failed and is kept for a look."""
        looked_at = self.state is NodeState.FAILED and self.held
        return self.assignment_id is not None and (self.state is NodeState.RUNNING or looked_at)

    @property
    def attached(self) -> bool:
        return self.attached_at is not None

    @property
    def enrolled(self) -> bool:
        """Return whether the node is an app that enrolled itself, with an assignment of its own."""
        return self.provider == EXTERNAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """What ties a node to an operation. An assignment id makes it a run's; without one it only waits."""

    operation_id: OperationId
    assignment_id: AssignmentId | None
    run: str | None
    owner: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationGuard:
    """State a condition on the node's operation, checked in the same transaction as the node write.

    `committed=False` also moves the operation's version. So a commit that judged the node as it was before
    can't win afterwards.
    """

    operation_id: OperationId
    committed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChange:
    name: Verb | Fact
    before: Node | None
    after: Node
    at: float
    """When it happens: the time of its event."""
    guard: OperationGuard | None = None
    still_since: float | None = None
    """Refused with Conflict if the node's boot advanced after this: checked in the same transaction."""
    silent_since: float | None = None
    """Refused with Conflict if the node was seen after this: likewise."""
    detail: str = ""
    told_as: str = ""
    """The name of its event, where that says more than the verb."""
    actor: str = ""
    """Who did it, if it was a person or a program of theirs."""
    rolled_back: bool = False
    """It is let go with its operation, for no fault of its own."""
    teaches: bool = True
    """Of a boot that came to its end: whether how long it took says how long boots take."""

    @property
    def came_up(self) -> bool:
        return self.after.up and not (self.before is not None and self.before.up)

    @property
    def gave_up(self) -> bool:
        """Return whether the change gives a boot up."""
        begun = self.before is not None and self.before.state is NodeState.CREATED
        return begun and not self.after.up and self.after.state in (NodeState.FAILED, NodeState.TERMINATING)

    @property
    def mark(self) -> Mark | None:
        """Return the mark that the change leaves on the boot; None: it says nothing about that."""
        if self.gave_up:
            return Mark(at=self.at, phase=Phase.GIVEN_UP.value)
        if self.name in (Fact.JOINED, Fact.ADVANCED) or self.came_up:
            return Mark(at=self.at, phase=self.after.phase, step=self.after.step)
        return None

    def __post_init__(self) -> None:
        source = None if self.before is None else self.before.state
        target = self.after.state
        legal = allowed(self.name, source, target) if isinstance(self.name, Verb) else source is target
        if not legal:
            raise IllegalTransition(
                f"cannot {self.name} node {self.after.id}: no edge {source or 'no record'} → {target}"
            )


def adopt(node: Node, *, now: float) -> NodeChange:
    return NodeChange(name=Verb.ADOPT, before=None, after=node, at=now)


def pool_in(node: Node, *, now: float, deadline_at: float) -> NodeChange:
    if not node.up:
        raise IllegalTransition(f"cannot pool node {node.id}: it has not booted")
    return _moved(node, Verb.POOL_IN, NodeState.IDLE, now=now, deadline_at=deadline_at, unbound=True)


def hand_over(node: Node, *, now: float, deadline_at: float | None) -> NodeChange:
    """Hand a node over after its operation's commit, checked in the same write. Apps have no operation."""
    if not node.attached or (node.operation_id is None and not node.enrolled):
        raise IllegalTransition(f"cannot hand over node {node.id}: it is not attached")
    change = _moved(node, Verb.HAND_OVER, NodeState.RUNNING, now=now, deadline_at=deadline_at)
    if node.operation_id is None:
        return change
    return replace(change, guard=OperationGuard(operation_id=node.operation_id, committed=True))


def serves(node: Node, *, now: float, proof: str) -> NodeChange:
    """Hand over an app by what is seen of it, without its report. When that was says nothing of its boot."""
    _check_enrolled(node)
    up = replace(
        node,
        booted_at=now if node.booted_at is None else node.booted_at,
        attached_at=now if node.attached_at is None else node.attached_at,
        phase=Phase.BOOTED.value,
        step="",
    )
    change = hand_over(up, now=now, deadline_at=None)
    return replace(change, before=node, detail=proof, teaches=False)


def release(node: Node, *, now: float, deadline_at: float, reason: Reason | None = None) -> NodeChange:
    # Why it drains must not be forgotten before it ends of it.
    reason = reason or (node.reason if node.drain else None)
    return _moved(node, Verb.RELEASE, NodeState.RELEASING, now=now, deadline_at=deadline_at, reason=reason)


def clean(node: Node, *, now: float, deadline_at: float) -> NodeChange:
    return _moved(node, Verb.CLEAN, NodeState.IDLE, now=now, deadline_at=deadline_at, unbound=True)


def fail(
    node: Node,
    *,
    now: float,
    reason: Reason,
    deadline_at: float,
    detail: str = "",
    still_since: float | None = None,
    hold: bool = False,
) -> NodeChange:
    """Fail a node that did not boot. `still_since`: fail only if it made no progress since then. `hold`: its
    deadline is that of a look."""
    if node.up:
        raise IllegalTransition(f"cannot fail node {node.id}: it has booted")
    change = _moved(
        node, Verb.FAIL, NodeState.FAILED, now=now, deadline_at=deadline_at, reason=reason, detail=detail
    )
    after = replace(change.after, deadline_source=HOLD) if hold else change.after
    return replace(change, after=after, still_since=still_since)


def rescue(
    node: Node,
    *,
    now: float,
    assignment_id: AssignmentId,
    deadline_at: float,
    detail: str,
    teaches: bool = True,
) -> NodeChange:
    """Rescue a node that booted after it was given up.

    The node is released like any other: detached under its own or a fresh assignment, never into the
    operation that gave it up.
    """
    if node.up:
        raise IllegalTransition(f"cannot rescue node {node.id}: it has booted")
    change = _moved(
        node, Verb.RELEASE, NodeState.RELEASING, now=now, deadline_at=deadline_at, reason=node.reason
    )
    after = replace(
        change.after, booted_at=now, phase=Phase.BOOTED.value, step="", assignment_id=assignment_id
    )
    return replace(change, after=after, detail=detail, told_as="rescued", teaches=teaches)


def condemn(
    node: Node,
    *,
    now: float,
    reason: Reason,
    detail: str = "",
    silent_since: float | None = None,
    rolled_back: bool = False,
    after_commit: bool = False,
) -> NodeChange:
    """Condemn a node. `silent_since`: only if it gave no sign of life since then.

    `after_commit`: its operation was committed and failed all the same; else a commit spares the node.
    """
    change = _moved(
        node, Verb.CONDEMN, NodeState.TERMINATING, now=now, deadline_at=None, reason=reason, detail=detail
    )
    guard = None if after_commit else change.guard
    return replace(change, silent_since=silent_since, rolled_back=rolled_back, guard=guard)


def leave(node: Node, *, now: float) -> NodeChange:
    """Condemn an app that says goodbye by itself."""
    _check_enrolled(node)
    change = condemn(node, now=now, reason=Reason.LEFT, detail="it said goodbye")
    return replace(change, after=replace(change.after, left_at=now))


def left(node: Node, *, now: float) -> NodeChange:
    """Record that a condemned app confirmed its end."""
    _check_enrolled(node)
    if node.state is not NodeState.TERMINATING or node.left_at is not None:
        raise IllegalTransition(f"cannot mark node {node.id} as left: it is {node.state}")
    after = replace(node, version=node.version + 1, left_at=now)
    return NodeChange(name=Fact.LEFT, before=node, after=after, at=now)


def displaced(node: Node, *, now: float) -> NodeChange:
    """Record that another app has the address now: probes there say nothing about this one."""
    _check_enrolled(node)
    after = replace(node, version=node.version + 1, address="")
    return NodeChange(name=Fact.DISPLACED, before=node, after=after, at=now)


def _check_enrolled(node: Node) -> None:
    if not node.enrolled:
        raise IllegalTransition(f"cannot treat node {node.id} as an app: it is a machine of {node.provider}")


def confirm_gone(node: Node, *, now: float, detail: str = "") -> NodeChange:
    return _moved(
        node,
        Verb.CONFIRM_GONE,
        NodeState.TERMINATED,
        now=now,
        deadline_at=None,
        reason=node.reason,
        detail=detail,
    )


def extend(
    node: Node, *, now: float, deadline_at: float, source: str, detail: str = "", told_as: str = ""
) -> NodeChange:
    if node.deadline_at is None or deadline_at <= node.deadline_at:
        raise IllegalTransition(f"cannot extend node {node.id}: {deadline_at} is not later")
    after = replace(node, version=node.version + 1, deadline_at=deadline_at, deadline_source=source)
    told = f"{detail}, " if detail else ""
    return NodeChange(
        name=Verb.EXTEND,
        before=node,
        after=after,
        at=now,
        detail=f"{told}until {time_of_day(deadline_at)}",
        told_as=told_as,
    )


def renew(node: Node, *, now: float, deadline_at: float) -> NodeChange:
    """Move the deadline of a node that is kept warm. Has a name of its own in the feed: it is routine."""
    return extend(node, now=now, deadline_at=deadline_at, source="min_idle", told_as=RENEWED)


RENEWED = "renewed"
"""The name of a renewal in the event feed."""


def time_of_day(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S} UTC"


def joined(node: Node, *, boot_id: str, now: float) -> NodeChange:
    """Record a join. A second join in the same boot keeps `joined_at`: grace is per boot."""
    again = node.boot_id == boot_id and node.joined_at is not None
    joined_at = node.joined_at if again else now
    phase = node.phase if again else Phase.JOINED.value
    after = replace(node, version=node.version + 1, boot_id=boot_id, joined_at=joined_at, phase=phase)
    return NodeChange(name=Fact.JOINED, before=node, after=after, at=now)


def booted(node: Node, *, now: float, deadline_at: float | None, teaches: bool = True) -> NodeChange:
    if node.up or node.state is not NodeState.CREATED:
        raise IllegalTransition(f"cannot mark node {node.id} booted: it is {node.state}")
    after = replace(
        node,
        version=node.version + 1,
        booted_at=now,
        deadline_at=deadline_at,
        deadline_source="attach_timeout",
        phase=Phase.BOOTED.value,
        step="",
    )
    return NodeChange(name=Fact.BOOTED, before=node, after=after, at=now, teaches=teaches)


def advanced(node: Node, *, phase: str, step: str, now: float) -> NodeChange | None:
    """Record a phase of the boot, or a step of one. None: that is no news."""
    if node.up or node.state is not NodeState.CREATED:
        raise IllegalTransition(f"cannot advance the boot of node {node.id}: it is {node.state}")
    if (phase, step) == (node.phase, node.step):
        return None
    after = replace(node, version=node.version + 1, phase=phase, step=step)
    return NodeChange(name=Fact.ADVANCED, before=node, after=after, at=now, detail=step or phase)


def attached(node: Node, *, now: float, deadline_at: float) -> NodeChange:
    awaited = node.state in _BEFORE_COMMIT and node.assignment_id is not None and not node.attached
    if not node.up or not awaited:
        raise IllegalTransition(f"cannot mark node {node.id} attached: it is {node.state}")
    after = replace(
        node, version=node.version + 1, attached_at=now, deadline_at=deadline_at, deadline_source="operation"
    )
    return NodeChange(name=Fact.ATTACHED, before=node, after=after, at=now)


def drained(node: Node, *, now: float) -> NodeChange:
    after = replace(node, version=node.version + 1, drain=True)
    return NodeChange(name=Fact.DRAINED, before=node, after=after, at=now)


def held(node: Node, *, now: float, until: float, detail: str = "") -> NodeChange:
    """Keep a node for a look until that time, and no longer: one that failed, or whose command failed."""
    if node.state not in (NodeState.FAILED, NodeState.RUNNING) or node.enrolled:
        raise IllegalTransition(f"cannot hold node {node.id}: it is {node.state}")
    after = replace(node, version=node.version + 1, deadline_at=until, deadline_source=HOLD)
    told = f"{detail}, " if detail else ""
    return NodeChange(
        name=Fact.HELD, before=node, after=after, at=now, detail=f"{told}until {time_of_day(until)}"
    )


HOLD = "hold"
"""The source of a deadline until which a node is kept for a look."""


def interrupted(node: Node, *, now: float, ends_at: float) -> NodeChange:
    """Record that the provider takes the machine back at that time.

    Its work goes on until then, or until its release. A node without work is condemned instead.
    """
    if node.state not in (NodeState.RUNNING, NodeState.RELEASING):
        raise IllegalTransition(f"cannot mark node {node.id} as interrupted: it is {node.state}")
    after = replace(
        node,
        version=node.version + 1,
        drain=True,
        reason=Reason.INTERRUPTED,
        deadline_at=ends_at if node.deadline_at is None else min(node.deadline_at, ends_at),
        deadline_source=INTERRUPTION,
    )
    detail = f"{node.provider} takes machine {node.machine_id} back in {max(0.0, ends_at - now):.0f} s"
    return NodeChange(name=Fact.INTERRUPTED, before=node, after=after, at=now, detail=detail)


INTERRUPTION = "interruption"
"""The source of a deadline that the provider set."""


def commanded(node: Node, *, now: float) -> NodeChange:
    """Record that the node's commands changed: the version moves, so that the node asks for them."""
    if not node.commandable:
        raise IllegalTransition(f"cannot command node {node.id}: it is {node.state}")
    after = replace(node, version=node.version + 1)
    return NodeChange(name=Fact.COMMANDED, before=node, after=after, at=now)


_SOURCES = {
    Verb.POOL_IN: "idle_timeout",
    Verb.CLEAN: "idle_timeout",
    Verb.HAND_OVER: "max_runtime",
    Verb.RELEASE: "release_timeout",
    Verb.FAIL: "rescue_window",
}
"""Where the deadline of the state that a verb leads to comes from."""

_BEFORE_COMMIT = frozenset({NodeState.CREATED, NodeState.CLAIMED})


def _moved(
    node: Node,
    verb: Verb,
    state: NodeState,
    *,
    now: float,
    deadline_at: float | None,
    reason: Reason | None = None,
    unbound: bool = False,
    detail: str = "",
) -> NodeChange:
    after = replace(
        node,
        state=state,
        version=node.version + 1,
        entered_at=now,
        deadline_at=deadline_at,
        deadline_source=_SOURCES.get(verb, "") if deadline_at is not None else "",
        reason=reason,
        detail=detail.partition("\n")[0][:DETAIL_MAX] if reason is not node.reason else node.detail,
    )
    if unbound:
        after = replace(
            after,
            operation_id=None,
            assignment_id=None,
            run=None,
            owner=None,
            attached_at=None,
            # Told to attach is as good as attached: its word that it did may have been lost.
            last_owner=node.owner if node.assignment_id is not None else node.last_owner,
        )
    guard = None
    if node.state in _BEFORE_COMMIT and node.operation_id is not None and verb is not Verb.POOL_IN:
        guard = OperationGuard(operation_id=node.operation_id, committed=False)
    return NodeChange(name=verb, before=node, after=after, at=now, guard=guard, detail=detail)
