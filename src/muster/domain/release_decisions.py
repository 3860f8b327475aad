"""Decide what a release does next, and what becomes of a node that proved to be clean."""

from collections.abc import Sequence
from dataclasses import dataclass

from muster.domain import node as nodes
from muster.domain.decisions import Finish, Wait
from muster.domain.lifecycle import ENDING, NodeState
from muster.domain.node import Node, NodeChange
from muster.domain.operation import Operation, Status, Verdict
from muster.domain.reasons import BY_RULE, Reason
from muster.domain.requests import ReleaseRequest
from muster.domain.template import Reuse, Template
from muster.domain.text import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    operation: Operation
    request: ReleaseRequest
    target: Operation
    """The provision whose nodes are given back."""
    nodes: Sequence[Node]
    """Nodes bound to the provision at present."""
    now: float
    returning: float
    """Seconds that nodes have to come back once their provision has ended; the sweep ends each sooner."""
    grace_until: float = 0.0
    """Its deadline doesn't count as passed before this: no replica watched for a while."""

    @property
    def selected(self) -> list[Node]:
        wanted = self.request.assignment_ids
        return [node for node in self.nodes if wanted is None or node.assignment_id in wanted]


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTarget:
    """The provision is unfinished: stop it first. If its commit wins, the release goes on from there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    nodes: tuple[Node, ...]


Action = CancelTarget | Release | Finish | Wait


def decide(at: Situation) -> Action:
    target = at.target
    if target.ended:
        running = tuple(node for node in at.selected if node.state is NodeState.RUNNING)
        if running:
            return Release(nodes=running)
        if not any(node.state is NodeState.RELEASING for node in at.selected):
            return Finish(status=Status.SUCCEEDED, result=_returned(at))
    elif not target.committed and target.cancel_requested_at is None and target.verdict is None:
        return CancelTarget()
    # Only nodes that were asked to come back can be late: a provision that hasn't ended has its own deadline.
    returned_by = max(at.operation.deadline_at, (target.ended_at or 0.0) + at.returning, at.grace_until)
    if target.ended and at.now >= returned_by:
        message = "some nodes did not come back in time; Muster terminates them"
        return Finish(status=Status.FAILED, verdict=Verdict(reason=Reason.RELEASE_TIMEOUT, message=message))
    return Wait()


def _returned(at: Situation) -> str:
    """Say how many nodes are back for the next run. The others still have the assignment."""
    wanted = at.request.assignment_ids
    members = [each for each in at.target.members if wanted is None or each.assignment_id in wanted]
    handed = {each.assignment_id for each in members}
    over = [node for node in at.selected if node.state in ENDING and node.assignment_id in handed]
    gone = [node for node in over if node.reason not in BY_RULE]
    if not members:
        return "no nodes are held any more"
    if at.request.already:
        return "already released: no nodes are held any more"
    if not gone:
        return "all nodes are back" + (f"; {len(over)} will not be used again" if over else "")
    reasons = ", ".join(dict.fromkeys(str(node.reason) for node in gone if node.reason is not None))
    lost = f"{len(gone)} {'is' if len(gone) == 1 else 'are'} gone ({reasons})"
    return f"{len(members) - len(gone)} of {counted(len(members), 'node')} back: {lost}"


def is_back(request: ReleaseRequest, nodes: Sequence[Node]) -> bool:
    """Return whether all nodes of a provision that still have its assignments went back before this."""
    wanted = request.assignment_ids
    bound = [node for node in nodes if wanted is None or node.assignment_id in wanted]
    return all(node.state in ENDING and node.reason in BY_RULE for node in bound)


def after_detach(node: Node, template: Template, *, now: float, due_at: float | None) -> NodeChange:
    """Return the change for a releasing node that proved to be clean: into the pool, or condemned.

    `due_at`: when its deadline counts as passed; None: never.
    """
    if due_at is not None and now >= due_at:
        return nodes.condemn(node, now=now, reason=Reason.RELEASE_TIMEOUT)
    if node.drain:
        return nodes.condemn(node, now=now, reason=node.reason or Reason.OPERATOR, detail="it was draining")
    if node.revision < template.revision:
        return nodes.condemn(node, now=now, reason=Reason.RETIRED)
    if template.spec.reuse is Reuse.NEVER:
        return nodes.condemn(node, now=now, reason=Reason.REUSE)
    return nodes.clean(node, now=now, deadline_at=now + template.spec.idle_timeout)
