"""Take signals of nodes and answer with their desired state.

Every signal about a run carries its assignment, so a stale signal of an earlier attempt changes nothing.
Signals are idempotent facts, repeated until acknowledged. The answer is always the desired state, so a node
that is out of step learns what to do.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from muster.domain import app as apps
from muster.domain import deadlines
from muster.domain import node as nodes
from muster.domain.access import hashed
from muster.domain.boot import MARKS_MOST
from muster.domain.deadlines import Watch
from muster.domain.desired_state import Desired, desired
from muster.domain.errors import Conflict, Forbidden, Gone, NotYet, ProviderError, Refused
from muster.domain.health import Health
from muster.domain.ids import AssignmentId, NodeId
from muster.domain.lifecycle import ENDING, Fact, NodeState
from muster.domain.node import Node, NodeChange
from muster.domain.reasons import Reason
from muster.domain.release_decisions import after_detach
from muster.domain.requests import ProvisionRequest
from muster.domain.settings import Settings
from muster.domain.template import TemplateSpec
from muster.enrolment.apps import AppEnrolment
from muster.enrolment.commands import NodeCommands
from muster.enrolment.heartbeats import Heartbeats
from muster.enrolment.joins import JOIN_RETRY, TRIES, JoinHandler
from muster.enrolment.reports import STEP_MAX, Report, how_it_failed, in_short
from muster.enrolment.streams import Streams
from muster.ports.bundle import Ports
from muster.ports.runtime import Kit, NodeRuntime
from muster.ports.store import NodeView
from muster.ports.wakeups import node_topic

logger = logging.getLogger(__name__)

UNKNOWN_TOKEN = "unknown node token: join again"  # noqa: S105 — what is said, not a token
NOTICE_MOST = 600.0
"""Seconds of notice that a provider gives at the most; what a node says beyond that is no reason to wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    node_id: NodeId
    token: str
    """Speaks for this node only. A repeated join gives a fresh one and the old one dies."""
    desired: Desired


class Enrolment:
    """`look` says since when the world is watched."""

    def __init__(self, ports: Ports, settings: Settings, look: Callable[[], Awaitable[Watch]]) -> None:
        self._ports = ports
        self._store = ports.store
        self._limits = settings.limits
        self._look = look
        self.commands = NodeCommands(ports)
        self.heartbeats = Heartbeats(
            ports.store, ports.clock, ports.wakeups, flush_every=settings.flush_every
        )
        self.streams = Streams(ports.wakeups, ports.clock, ports.ids)
        self.apps = AppEnrolment(ports, settings, self.heartbeats)
        self._joining = JoinHandler(ports, self.heartbeats)

    # --- joining ----------------------------------------------------------------------------------

    async def join(self, proof: str, *, key: str, boot_id: str) -> Admission:
        """Admit a machine as `JoinHandler.join` does, and return its first desired state, too."""
        node_id, token = await self._joining.join(proof, key=key, boot_id=boot_id)
        return Admission(node_id=node_id, token=token, desired=await self.desired(node_id))

    async def identify(self, token: str) -> NodeId:
        node_id = await self._store.node_for_token(hashed(token))
        if node_id is None:
            raise Forbidden(UNKNOWN_TOKEN)
        return node_id

    async def recognise(self, token: str) -> NodeView:
        """Identify a node as `identify` does, and return all that an answer to the node needs."""
        node_view = await self._store.node_view_for_token(hashed(token))
        if node_view is None:
            raise Forbidden(UNKNOWN_TOKEN)
        return node_view

    # --- heartbeats and desired state -------------------------------------------------------------

    async def beat(
        self, node_id: NodeId, *, activity: int | None = None, said: Health | None = None, reason: str = ""
    ) -> Node:
        """Record a heartbeat and what it reports. Return the node's record: if its version moved, ask for the
        desired state.

        Raises NotFound for an unknown node and Gone for one that has ended.
        """
        arrived_at = self.heartbeats.arrived_by
        node = await self._store.node(node_id)
        _refuse_ended(node)
        self.heartbeats.beat(node_id, activity=activity, said=said, reason=reason, arrived_at=arrived_at)
        return node

    async def desired(self, node_id: NodeId) -> Desired:
        return await self.desired_for(await self._store.node_view(node_id))

    async def poll(
        self, node_id: NodeId, *, known: int, timeout: float, unless: Sequence[str] = ()
    ) -> Desired:
        """Return the desired state once the record's version isn't `known`, or after `timeout` seconds.

        A notification of a topic in `unless` ends the wait, too.
        """
        listener = self._ports.wakeups.listen((node_topic(node_id), *unless))
        try:
            if (await self._store.node(node_id)).version == known:
                await listener.wait(timeout)
        finally:
            listener.close()
        return await self.desired(node_id)

    async def desired_for(self, node_view: NodeView) -> Desired:
        node, operation = node_view.node, node_view.operation
        template = await self._template_spec(node)
        max_runtime = template.max_runtime
        if operation is not None and isinstance(operation.request, ProvisionRequest):
            max_runtime = operation.request.max_runtime or max_runtime
        seconds = deadlines.dead_man(
            node,
            operation,
            template,
            max_runtime=max_runtime,
            now=self._ports.clock.now(),
            limits=self._limits,
        )
        return desired(node, dead_man=seconds, kit=template.kitted)

    async def kit(self, node_id: NodeId, assignment: AssignmentId) -> Kit:
        """Return what the node needs to attach to its present assignment.

        A refusal is final: the node is condemned with the reason. Raises Conflict if the node should not
        attach to this assignment now; also Throttled, Refused and Uncertain.
        """
        at = await self._store.node_view(node_id)
        node, runtime_binding = at.node, await self._runtime_of(at)
        _refuse_ended(node)
        if runtime_binding is None or not self._awaits(node, assignment):
            raise Conflict(
                f"cannot give node {node_id} a kit for {assignment}: it isn't to attach to that now"
            )
        runtime, request, spec = runtime_binding
        try:
            return await runtime.kit(node, request, spec)
        except Refused as error:
            await self._joining.condemn(node_id, Reason.ATTACH_FAILED, str(error))
            raise

    async def _runtime_of(self, at: NodeView) -> tuple[NodeRuntime, ProvisionRequest, TemplateSpec] | None:
        """Return the runtime that confirms the node's assignment, with request and template; None: only its
        agent knows."""
        spec = await self._template_spec(at.node)
        runtime, request = self._ports.runtimes.get(spec.runtime), at.operation and at.operation.request
        if runtime is None or not isinstance(request, ProvisionRequest):
            return None
        return runtime, request, spec

    # --- signals ----------------------------------------------------------------------------------

    async def report(self, node_id: NodeId, report: Report, *, node_view: NodeView | None = None) -> Desired:
        """Apply what a node reports. Return its desired state. `node_view`: what the caller just read."""
        at = node_view or await self._store.node_view(node_id)
        for _ in range(TRIES):
            if not report.left:
                _refuse_ended(at.node)
            change = await self._change(at, report)
            if change is None:
                return await self.desired_for(at)
            if change.after.state is NodeState.IDLE:
                await self._record_sign_of_life(node_id)
            try:
                at = _moved(at, await self._store.apply(change))
            except Conflict:
                # First writer wins; see whether the fact is still news.
                at = await self._store.node_view(node_id)
                continue
            if change.name == Fact.INTERRUPTED and at.node.state is NodeState.RUNNING:
                await self._close_to_new_work(at)
        raise NotYet(f"node {node_id} keeps changing; report again", JOIN_RETRY)

    async def _close_to_new_work(self, at: NodeView) -> None:
        """Keep it from new work; its present work goes on. The sweep tries again."""
        runtime_binding = await self._runtime_of(at)
        if runtime_binding is None:
            return
        try:
            await runtime_binding[0].withdraw(at.node, *runtime_binding[1:])
        except ProviderError as error:
            extra = {"node_id": at.node.id, "error": str(error)}
            logger.info("an interrupted node can't be closed to new work yet", extra=extra)

    async def _record_sign_of_life(self, node_id: NodeId) -> None:
        """Record a heartbeat for a node that becomes idle. Its report proves life.

        Without it, a claim could take the node for dead after the server was away.
        """
        now = self._ports.clock.now()
        seen = (await self._store.last_seen([node_id])).get(node_id, 0.0)
        if now - seen > (await self._look()).limits(self._limits, now=now).stale_after / 2:
            self.heartbeats.beat(node_id)
            await self.heartbeats.flush()

    async def _change(self, at: NodeView, report: Report) -> NodeChange | None:
        """Return the change for the first news in the report; None: nothing is new."""
        node = at.node
        now = self._ports.clock.now()
        if node.enrolled and (report.left or _serves(node, report)):
            return _app_change(node, report, now)
        if report.interrupted is not None and node.reason is not Reason.INTERRUPTED:
            return _interruption(node, report.interrupted, now)
        if node.state is NodeState.CREATED and not node.up:
            return await self._boot_change(at, report, now)
        if report.attached is not None and self._awaits(node, report.attached):
            return await self._attach_change(at, ended=False)
        if report.failed is not None and _unfit(node, report.failed_assignment):
            detail = how_it_failed(report.failed)
            return nodes.condemn(node, now=now, reason=Reason.ATTACH_FAILED, detail=detail)
        if report.detached is not None and report.detached == node.assignment_id and not node.enrolled:
            return await self._detach_change(at)
        if report.booted and node.state is NodeState.FAILED:
            return await self._rescue(node, now)
        return None

    async def _attach_change(self, at: NodeView, *, ended: bool) -> NodeChange | None:
        runtime_binding, spec = await self._runtime_of(at), await self._template_spec(at.node)
        kitted = spec.kitted
        if kitted and (
            runtime_binding is None
            or not await runtime_binding[0].attached(at.node, *runtime_binding[1:], ended=ended)
        ):
            return None  # its own report isn't enough; `controllers.attachments` looks again
        now = self._ports.clock.now()
        until = deadlines.attached_until(at.operation, self._limits, now=now)
        return nodes.attached(at.node, now=now, deadline_at=until)

    async def _boot_change(self, at: NodeView, report: Report, now: float) -> NodeChange | None:
        node, spec = at.node, await self._template_spec(at.node)
        if report.booted:
            until = now + deadlines.attach_timeout(spec, self._limits)
            return nodes.booted(node, now=now, deadline_at=until, teaches=await self._teaches(node))
        if report.failed is not None and report.failed_assignment is None:
            reason = Reason.BOOT_SCRIPT_FAILED
            return deadlines.failed(
                node,
                reason=reason,
                template=spec,
                operation=at.operation,
                now=now,
                detail=how_it_failed(report.failed),
            )
        if report.phase is not None and len(await self._store.marks(node.id)) < MARKS_MOST:
            step = in_short(report.step or "", longest=STEP_MAX)
            return nodes.advanced(node, phase=report.phase, step=step, now=now)
        return None

    async def _rescue(self, node: Node, now: float) -> NodeChange | None:
        """Rescue a node that booted after it was given up. The operation that gave it up never gets it."""
        spec = await self._template_spec(node)
        closes = await self._due(deadlines.rescue_closes(node, spec), now)
        late = deadlines.rescued_late(node, spec, now=now, closes=closes)
        if late is None:
            return None
        detail = f"booted {late:.0f} s after it was given up ({node.reason}: {node.detail})"
        if not spec.pools or node.drain:
            return nodes.condemn(node, now=now, reason=node.reason or Reason.BOOT_TIMEOUT, detail=detail)
        return nodes.rescue(
            node,
            now=now,
            assignment_id=node.assignment_id or AssignmentId(self._ports.ids.new("as")),
            deadline_at=now + self._limits.releasing,
            detail=detail,
            teaches=await self._teaches(node),
        )

    async def _teaches(self, node: Node) -> bool:
        """Return whether a boot counts for learning. One that ended while no server ran does not."""
        return (await self._look()).unbroken_from(node.created_at)

    def _awaits(self, node: Node, assignment: AssignmentId | None) -> bool:
        if assignment is None or node.assignment_id != assignment:
            return False
        return node.state in (NodeState.CREATED, NodeState.CLAIMED) and node.up and not node.attached

    async def _detach_change(self, at: NodeView) -> NodeChange | None:
        node, now = at.node, self._ports.clock.now()
        if node.state is NodeState.RUNNING:
            # Its work ended by itself (an ephemeral runner): the node gives itself back.
            return nodes.release(node, now=now, deadline_at=now + self._limits.releasing)
        if node.state is NodeState.RELEASING:
            runtime_binding = await self._runtime_of(at)
            if runtime_binding is not None:
                await runtime_binding[0].withdraw(node, *runtime_binding[1:])
                now = self._ports.clock.now()
            template = await self._store.template(node.template)
            due_at = None if node.deadline_at is None else await self._due(node.deadline_at, now)
            return after_detach(node, template, now=now, due_at=due_at)
        if self._awaits(node, node.assignment_id) and (await self._template_spec(node)).kitted:
            return await self._attach_change(at, ended=True)
        return None

    async def _due(self, deadline_at: float, now: float) -> float:
        """Return when a deadline counts as passed. Time in which no server ran does not count."""
        if now < deadline_at:
            return deadline_at
        return (await self._look()).due(deadline_at, self._limits)

    async def _template_spec(self, node: Node) -> TemplateSpec:
        return (await self._store.template(node.template, node.revision)).spec


def _moved(before: NodeView, node: Node) -> NodeView:
    """Return the view after a write of the node. The write may have taken the node from its operation."""
    return replace(before, node=node, operation=None if node.operation_id is None else before.operation)


def _refuse_ended(node: Node) -> None:
    """Raise Gone for a terminated node, and for an app that is condemned.

    A condemned machine gets its desired state instead, until it is gone.
    """
    if node.enrolled and node.state in ENDING:
        raise apps.turned_away(node)
    if node.state is NodeState.TERMINATED:
        raise Gone(f"node {node.id} is terminated")


def _unfit(node: Node, assignment: AssignmentId | None) -> bool:
    """Return whether the node can't serve its assignment, which was not handed over yet."""
    if assignment is None or node.assignment_id != assignment:
        return False
    return node.state in (NodeState.CREATED, NodeState.CLAIMED) and node.up


def _serves(node: Node, report: Report) -> bool:
    """Return whether an app's server accepts connections. No runtime has to confirm that."""
    return node.state is NodeState.CREATED and node.attached and report.attached == node.assignment_id


def _app_change(node: Node, report: Report, now: float) -> NodeChange | None:
    if not report.left:
        return nodes.hand_over(node, now=now, deadline_at=None)
    if node.state not in ENDING:
        return nodes.leave(node, now=now)
    if node.state is NodeState.TERMINATING and node.left_at is None:
        return nodes.left(node, now=now)
    return None


def _interruption(node: Node, seconds: float, now: float) -> NodeChange | None:
    """Return the change for an interruption notice. A run may use the rest of the time; any other node is
    condemned."""
    if node.state in (NodeState.RUNNING, NodeState.RELEASING):
        return nodes.interrupted(node, now=now, ends_at=now + min(seconds, NOTICE_MOST))
    if node.state in ENDING:
        return None
    return nodes.condemn(
        node, now=now, reason=Reason.INTERRUPTED, detail=f"{node.provider} takes the machine back"
    )
