"""Decide what a provision does next: one pure decision over everything that it holds.

Nothing here depends on a step or on an earlier decision. The operation's own nodes and launches are the only
memory, so another replica decides the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from muster.domain import launch as launches
from muster.domain.boot import Boot
from muster.domain.deadlines import EXTENSION, Limits, later_deadline
from muster.domain.decisions import CallProvider, ExtendDeadline, Finish, Wait
from muster.domain.ids import NodeId
from muster.domain.launch import Launch, LaunchState
from muster.domain.lifecycle import ENDING, NodeState
from muster.domain.matching import Demand
from muster.domain.node import Node, time_of_day
from muster.domain.operation import Member, Operation, Status, Verdict
from muster.domain.reasons import ADVICE, Reason
from muster.domain.requests import ProvisionRequest
from muster.domain.template import Template, UsageClass
from muster.domain.text import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """All that the decision looks at."""

    operation: Operation
    request: ProvisionRequest
    template: Template
    nodes: Sequence[Node]
    launches: Sequence[Launch]
    seen: Mapping[NodeId, float]
    ahead: int
    now: float
    limits: Limits
    watched_since: float = 0.0
    """No node is called dead for time before this, in which no replica watched."""
    grace_until: float = 0.0
    """Its deadline doesn't count as passed before this: no replica watched for a while."""
    boots: Sequence[Boot] = ()
    """The last boots of the template: what is to be expected of these."""
    makes_way: frozenset[Reason] = frozenset()
    """Refusals of the template's provider that the end of other nodes of it would undo."""
    advice: Mapping[Reason, str] = field(default_factory=dict)
    """What the template's provider advises after a refusal, where the usual advice is of no use."""
    paused: bool = False
    """An operator holds back the claim or launch that would be next. What is under way goes on."""

    @property
    def held(self) -> list[Node]:
        """Return the nodes bound to the provision and not yet handed over."""
        return [node for node in self.nodes if node.state in HELD]

    @property
    def throttled(self) -> bool:
        """Return whether the provider throttles: nothing is launched for a while."""
        return self.now < launches.again_at(self.launches)

    @property
    def provider_full(self) -> int:
        """Return how many of its launches were refused because other nodes fill the provider."""
        return sum(launch.reason in self.makes_way for launch in self.launches)

    @property
    def due_at(self) -> float:
        """Return when the provision has failed."""
        return max(self.operation.deadline_at, self.grace_until)


HELD = (NodeState.CREATED, NodeState.CLAIMED)
_LOST = (NodeState.FAILED, *ENDING)
_SHOWN_PLACES = (5, 10, 20, 50, 100, 200, 500, 1000)
"""The numbers of operations ahead in the queue that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """Wait in the template's queue, holding nothing, until `until`."""

    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Acquire:
    """Claim `count` idle nodes; launch what the pool can't give, of this usage class."""

    count: int
    usage_class: UsageClass


@dataclass(frozen=True, slots=True, kw_only=True)
class CondemnSilent:
    """Condemn attached nodes that stopped beating."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeWay:
    """Condemn surplus idle nodes of the provider that refused this launch, and launch again.

    If there are too few of them, give up.
    """

    launch: Launch
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp:
    """Store the verdict that the provision fails. The rollback follows from it."""

    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class RollBack:
    nodes: tuple[Node, ...]
    launches: tuple[Launch, ...]
    """Launches that were never called. `launch_closer` closes called ones."""


Action = (
    Queue
    | Acquire
    | CallProvider
    | CondemnSilent
    | ExtendDeadline
    | Commit
    | HandOver
    | MakeWay
    | GiveUp
    | RollBack
    | Finish
    | Wait
)
WAYS_MOST = 3
"""How often others make way for one provision: a quicker one may take the room each time."""

CANCELLED = Verdict(reason=Reason.CANCELLED, message="the provision was cancelled")


def demand(request: ProvisionRequest, template: Template) -> Demand:
    spec = template.spec
    return Demand(
        template=template.name,
        revision=template.revision,
        resource_class=request.resource_class or spec.resource_class,
        usage=request.usage or spec.usage,
        instance_types=request.instance_types or spec.instance_types,
        reuse=spec.reuse,
        owner=request.owner,
    )


def decide(at: Situation) -> Action:
    operation = at.operation
    if operation.committed:
        return _roll_forward(at)
    if operation.verdict is not None or operation.cancel_requested_at is not None:
        return _undo(at, operation.verdict or CANCELLED)
    until = later_deadline(operation, at.held, at.template.spec, at.limits)
    if until is not None:
        return ExtendDeadline(until=until)
    if at.now >= at.due_at:
        message = f"not ready in time ({operation.deadline_source} deadline): {waiting_for(at)}"
        return GiveUp(verdict=Verdict(reason=Reason.DEADLINE_EXCEEDED, message=message))
    failure = _failure(at)
    crowded = None if failure is None else _provider_full(at)
    if failure is not None and crowded is None:
        return GiveUp(verdict=failure)
    if operation.queued_since is not None:
        waited = _in_queue(at)
        if operation.status is Status.QUEUED or isinstance(waited, GiveUp):
            return waited
    if failure is not None and crowded is not None:
        return MakeWay(launch=crowded, verdict=failure)
    return _gather(at)


def _roll_forward(at: Situation) -> Action:
    held = at.held
    return HandOver(nodes=tuple(held)) if held else Finish(status=Status.SUCCEEDED)


def _undo(at: Situation, verdict: Verdict) -> Action:
    planned = tuple(launch for launch in at.launches if launch.state is LaunchState.PLANNED)
    if at.held or planned:
        return RollBack(nodes=tuple(at.held), launches=planned)
    status = Status.CANCELLED if verdict.reason is Reason.CANCELLED else Status.FAILED
    return Finish(status=status, verdict=verdict)


def _failure(at: Situation) -> Verdict | None:
    """Return why the provision can't succeed any more.

    Too many nodes made for it were lost, no launch is left, or its template is retired.
    """
    if _spent(at) > at.template.spec.replacements:
        return _loss(at)
    refused = [launch for launch in at.launches if launch.reason is not None]
    short = len(at.held) < at.request.count
    if short and refused and next_usage(at) is None:
        last = refused[-1]
        reason = last.reason or Reason.INTERNAL
        advice = at.advice.get(reason, "")
        return Verdict(reason=reason, message=last.message or advice or ADVICE[reason], advice=advice)
    if short and at.template.spec.retired and not any(launch.pending for launch in at.launches):
        message = f"the template {at.template.name} was retired before all nodes were ready"
        return Verdict(reason=Reason.RETIRED, message=message)
    return None


def _provider_full(at: Situation) -> Launch | None:
    """Return the refused launch that ends the provision, if other nodes may yet make way for it."""
    if _spent(at) > at.template.spec.replacements or at.template.spec.retired:
        return None
    last = at.launches[-1]
    # One that is open may still be carried out: its room is not to be given twice.
    answered = last.state is LaunchState.SETTLED and last.reason in at.makes_way
    return last if answered and at.provider_full <= WAYS_MOST else None


def _spent(at: Situation) -> int:
    """Return how many of the nodes made for it are lost.

    Counts what was made, not what is visible of the lost: a rescued node belongs to the pool, or to others,
    or is claimed again.
    """
    made = {launch.id: launch.count for launch in at.launches if _made_its_nodes(launch)}
    kept = sum(node.state is NodeState.CREATED and node.launch_id in made for node in at.nodes)
    return sum(made.values()) - kept


def _made_its_nodes(launch: Launch) -> bool:
    return launch.state is LaunchState.SETTLED and launch.reason is None


def _loss(at: Situation) -> Verdict:
    made = {launch.id for launch in at.launches if _made_its_nodes(launch)}
    lost = [node for node in at.nodes if node.launch_id in made and node.state in _LOST]
    if not lost:
        message = "a node made for it was given up before hand-over, and booted too late for it"
        return Verdict(reason=Reason.BOOT_TIMEOUT, message=message)
    node = lost[0]
    reason = node.reason or Reason.INTERNAL
    why = node.detail or ADVICE[reason]
    return Verdict(reason=reason, message=f"node {node.id} was lost before hand-over: {why}", node_id=node.id)


def next_usage(at: Situation) -> UsageClass | None:
    return launches.next_usage(demand(at.request, at.template).usage, at.launches)


def _in_queue(at: Situation) -> Action:
    """Wait in the queue, or give up once the queue time is over. It counts also while the provision tries."""
    until = at.operation.created_at + at.request.queue_timeout
    # One that was throttled has had its turn: it lacks an answer, not room.
    under_way = any(launch.pending for launch in at.launches) or launches.again_at(at.launches) > 0
    served = len(at.held) >= at.request.count or under_way
    if at.now >= until and (at.operation.status is Status.QUEUED or not served):
        message = f"no room within {at.request.queue_timeout:.0f} s in the queue"
        return GiveUp(verdict=Verdict(reason=Reason.CAP_REACHED, message=message))
    return Queue(until=until)


def _gather(at: Situation) -> Action:
    pending = [launch for launch in at.launches if launch.pending]
    if pending:
        return CallProvider(launch=pending[0])
    held = at.held
    if len(held) < at.request.count:
        usage = next_usage(at)
        if usage is None:
            return Wait()
        if at.throttled:
            return Wait(until=launches.again_at(at.launches))
        return Acquire(count=at.request.count - len(held), usage_class=usage)
    dead = tuple(node for node in held if node.attached and _dead(at, node))
    if dead:
        return CondemnSilent(nodes=dead)
    if all(node.attached and _fresh(at, node) for node in held):
        return Commit(members=_members(held))
    return Wait()


def _dead(at: Situation, node: Node) -> bool:
    watched = at.now - at.watched_since
    return min(_silent_for(at, node), watched) > at.limits.silence_limit


def _fresh(at: Situation, node: Node) -> bool:
    """Return whether the node's heartbeats are fresh. Its attach doesn't count: its time isn't exact."""
    return at.now - at.seen.get(node.id, 0.0) <= at.limits.stale_after


def _silent_for(at: Situation, node: Node) -> float:
    """Return the seconds without a sign of life. The attach counts, because beats may still be on
    their way."""
    return at.now - max(at.seen.get(node.id, 0.0), node.attached_at or 0.0)


def _members(nodes: Sequence[Node]) -> tuple[Member, ...]:
    return tuple(
        Member(node_id=node.id, assignment_id=node.assignment_id)
        for node in nodes
        if node.assignment_id is not None
    )


def waiting_for(at: Situation) -> str:
    """Return in words what the provision waits for before its commit."""
    if at.paused:
        return f"paused by an operator: {_waiting_for(at)}"
    return _waiting_for(at)


def _waiting_for(at: Situation) -> str:
    if at.operation.queued_since is not None and at.operation.status is Status.QUEUED:
        return f"waiting for room under the caps, {_place(at.ahead)} in the queue"
    pending = [launch for launch in at.launches if launch.pending]
    if pending:
        return f"waiting for {pending[0].provider} to create {counted(pending[0].count, 'node')}"
    held = at.held
    if len(held) < at.request.count and at.throttled:
        return f"waiting to ask {at.launches[-1].provider} again: it throttles requests"
    if len(held) < at.request.count:
        return f"waiting for {at.request.count - len(held)} of {counted(at.request.count, 'node')}"
    booting = sum(1 for node in held if not node.up)
    attaching = sum(1 for node in held if node.up and not node.attached)
    steps = [
        f"{counted(number, 'node')} to {verb}"
        for number, verb in ((booting, "boot"), (attaching, "attach"))
        if number
    ]
    waits = f"waiting for {' and '.join(steps) if steps else 'fresh heartbeats of all nodes'}"
    return waits + _slowest(held)


def _place(ahead: int) -> str:
    """Return the place in the queue, rounded while it is far back.

    Each shown change is a write. If a long queue wrote every step, the writes would be the square of its
    length.
    """
    if not ahead:
        return "next"
    if ahead <= _SHOWN_PLACES[0]:
        return f"{ahead} ahead"
    return f"more than {max(each for each in _SHOWN_PLACES if each < ahead)} ahead"


def _slowest(held: Sequence[Node]) -> str:
    """Describe a boot that was given more time than it should have needed."""
    extended = [node for node in held if not node.up and node.deadline_source == EXTENSION]
    if not extended:
        return ""
    node = max(extended, key=lambda each: (each.deadline_at or 0.0, each.id))
    doing = node.step or node.phase.replace("_", " ")
    until = time_of_day(node.deadline_at or 0.0)
    return f"; {node.id} is still at {doing}, deadline extended to {until}"
