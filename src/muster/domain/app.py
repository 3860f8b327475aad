"""Define apps that are nodes themselves: what they may report, and why they are turned away.

An app enrols, serves under an assignment of its own, and is alive by its heartbeats. It is never idle, has no
operation and no latest time. Muster neither makes nor ends an app. It only tells the app that it is no longer
a node.
"""

from dataclasses import dataclass

from muster.domain import checks, health
from muster.domain import node as nodes
from muster.domain.boot import Phase
from muster.domain.deadlines import Deadline, Limits
from muster.domain.errors import Gone, InvalidRequest, Lost, Removed
from muster.domain.health import Vitals
from muster.domain.ids import AssignmentId, NodeId
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node, NodeChange
from muster.domain.pace import BEATS_MISSED
from muster.domain.reasons import Reason
from muster.domain.template import Template

BEAT_LEAST = 2.0
BEAT_MOST = 30.0
"""Seconds between two heartbeats: the app chooses, within these."""
KEY_LEAST = 16
"""A key that others could guess, or choose by chance, would be their join as well."""
INSTANCE_TYPE = "app"
REMOVALS = (Reason.OPERATOR, Reason.CANCELLED, Reason.RETIRED)
"""The reasons for which an app stays out. After any other reason the app may enrol again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """What an app says when it enrols."""

    key: str
    """Made when it started: the same key is the same join."""
    boot_id: str
    name: str
    """What people call this instance of it. Not unique."""
    address: str = ""
    """Where it can be probed; empty: nowhere."""
    beat_seconds: float

    def __post_init__(self) -> None:
        # Never shown: with an enrolment token, who knows the key is the node.
        if not KEY_LEAST <= len(self.key) <= checks.RUN_MAX:
            rule = f"must have {KEY_LEAST} to {checks.RUN_MAX} characters, drawn at random"
            raise InvalidRequest("key", "…", rule)
        checks.text("boot_id", self.boot_id)
        checks.text("name", self.name)
        checks.seconds("beat_seconds", self.beat_seconds)
        if not BEAT_LEAST <= self.beat_seconds <= BEAT_MOST:
            rule = f"must be from {BEAT_LEAST:g} to {BEAT_MOST:g}"
            raise InvalidRequest("beat_seconds", self.beat_seconds, rule)


def stale_after(app: App, *, flush_every: float, limits: Limits) -> float:
    """Return for how long the last heartbeat proves life. A slow app is measured in its own beats."""
    return max(limits.service_stale_after, flush_every + BEATS_MISSED * app.beat_seconds)


def enrolled(
    app: App,
    template: Template,
    *,
    node_id: NodeId,
    machine_id: str,
    assignment_id: AssignmentId,
    deadline: Deadline,
    now: float,
) -> Node:
    """Return the record of an app that joins now. It has until its deadline to accept connections."""
    return Node(
        id=node_id,
        template=template.name,
        revision=template.revision,
        provider=template.spec.provider,
        resource_class=template.spec.resource_class,
        usage_class=template.spec.usage[0],
        instance_type=INSTANCE_TYPE,
        machine_id=machine_id,
        launch_id=None,
        state=NodeState.CREATED,
        created_at=now,
        entered_at=now,
        deadline_at=now + deadline.seconds,
        deadline_source=deadline.source,
        assignment_id=assignment_id,
        run=app.name,
        phase=Phase.JOINED.value,
        address=app.address,
    )


def hand_over(node: Node, vitals: Vitals, *, now: float, limits: Limits) -> NodeChange | None:
    """Hand over an app that provably serves, as its own report would; None: it isn't proven, or not needed.

    What an app says of its start is never held against it: without any report it is kept as long as it beats.
    """
    if not node.enrolled or node.state is not NodeState.CREATED:
        return None
    proof = health.proof_of_service(vitals, now=now, limits=limits)
    if proof is None and node.up and health.fresh(vitals, now=now, limits=limits):
        proof = "it reported that it booted"
    return None if proof is None else nodes.serves(node, now=now, proof=proof)


def is_gone(node: Node, *, seen_at: float | None, now: float, lost_after: float) -> bool:
    """Return whether a condemned app is gone: it left, or sends no heartbeats."""
    heard_at = max(seen_at or 0.0, node.joined_at or 0.0)
    return node.left_at is not None or now - heard_at >= lost_after


def turned_away(node: Node) -> Gone:
    """Return the error for an app whose node is terminating or terminated."""
    why = f"{node.reason or 'its time is over'}{f': {node.detail}' if node.detail else ''}"
    if node.reason in REMOVALS:
        return Removed(f"node {node.id} was removed ({why}); do not enrol again before the next start")
    return Lost(f"node {node.id} was given up ({why}); enrol again with a new key")
