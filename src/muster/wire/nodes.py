"""Nodes and pools."""

from typing import Annotated, Self

from msgspec import Meta

from muster.domain import node as domain
from muster.domain import overview
from muster.domain.health import Health, HealthSource, Vitals
from muster.domain.lifecycle import NodeState
from muster.domain.reasons import Reason
from muster.domain.template import UsageClass
from muster.wire.base import EXAMPLE_TIME, PageQuery, Shape, Time, convert


class Node(Shape):
    EXAMPLE = {
        "id": "node-1hx2k9q0c7m3t8v5e2",
        "template": "ci",
        "revision": 1,
        "provider": "process",
        "resource_class": "small",
        "usage_class": "on-demand",
        "instance_type": "local",
        "machine_id": "m-7",
        "launch_id": "op-1hx2k9q0c7m3t8v5e1.1",
        "state": "running",
        "version": 5,
        "created_at": EXAMPLE_TIME,
        "entered_at": EXAMPLE_TIME,
        "deadline_at": EXAMPLE_TIME,
        "deadline_source": "max_runtime",
        "operation_id": "op-1hx2k9q0c7m3t8v5e1",
        "assignment_id": "as-1hx2k9q0c7m3t8v5e3",
        "run": "ci-42",
        "owner": "acme/shop",
        "last_owner": None,
        "joined_at": EXAMPLE_TIME,
        "booted_at": EXAMPLE_TIME,
        "attached_at": EXAMPLE_TIME,
        "last_seen_at": EXAMPLE_TIME,
        "drain": False,
        "reason": None,
        "detail": "",
        "phase": "booted",
        "step": "",
        "address": "",
        "health": "ready",
        "health_reason": "",
        "health_source": "heartbeat",
        "health_since": EXAMPLE_TIME,
    }

    id: str
    template: str
    revision: int
    provider: str
    resource_class: str
    usage_class: UsageClass
    instance_type: str
    machine_id: str
    launch_id: str | None = None
    state: NodeState
    version: int
    created_at: Time
    entered_at: Time
    deadline_at: Time | None = None
    deadline_source: str = ""
    operation_id: str | None = None
    assignment_id: str | None = None
    run: str | None = None
    owner: str | None = None
    last_owner: str | None = None
    joined_at: Time | None = None
    booted_at: Time | None = None
    attached_at: Time | None = None
    last_seen_at: Time | None = None
    drain: bool = False
    reason: Reason | None = None
    detail: str = ""
    """The reason in words."""
    phase: str = ""
    """How far its boot is, and in which named step of it."""
    step: str = ""
    address: str = ""
    health: Health | None = None
    """How it feels; null before it joined and after it ended."""
    health_reason: str = ""
    health_source: HealthSource | None = None
    health_since: Time | None = None

    @classmethod
    def of(cls, node: domain.Node, vitals: Vitals | None) -> Self:
        if vitals is None:
            return convert(cls, node)
        return convert(
            cls,
            node,
            last_seen_at=vitals.seen_at,
            health=vitals.health,
            health_reason=vitals.health_reason,
            health_source=vitals.health_source,
            health_since=vitals.health_since or None,
        )


class HoldRequest(Shape):
    """How long a failed node is kept."""

    EXAMPLE = {"seconds": 1800}

    seconds: float


class NodesQuery(PageQuery):
    state: Annotated[tuple[NodeState, ...], Meta(max_length=len(NodeState))] = ()
    """None given: every state but terminated."""
    template: str | None = None


class Console(Shape):
    EXAMPLE = {
        "node_id": "node-1hx2k9q0c7m3t8v5e2",
        "text": "Reading package lists...",
        "missing": "",
        "read_at": EXAMPLE_TIME,
    }

    node_id: str
    text: str
    missing: str = ""
    """Why there is no text, if there is none."""
    read_at: Time


class Pool(Shape):
    """A template's nodes by what they are doing, against what it may have and should keep warm."""

    template: str
    idle: int
    claimed: int
    running: int
    booting: int
    releasing: int
    failed: int
    terminating: int
    min_idle: int
    max_nodes: int
    used: int
    """What counts against max_nodes: nodes that are not terminated, and what open launches hold."""
    paused: bool

    @classmethod
    def of(cls, pool: overview.Pool) -> Self:
        counts, spec = pool.counts, pool.template.spec
        return cls(
            template=pool.template.name,
            idle=counts.get(NodeState.IDLE, 0),
            claimed=counts.get(NodeState.CLAIMED, 0),
            running=counts.get(NodeState.RUNNING, 0),
            booting=counts.get(NodeState.CREATED, 0),
            releasing=counts.get(NodeState.RELEASING, 0),
            failed=counts.get(NodeState.FAILED, 0),
            terminating=counts.get(NodeState.TERMINATING, 0),
            min_idle=spec.min_idle,
            max_nodes=spec.max_nodes,
            used=pool.used,
            paused=pool.paused,
        )


class Pools(Shape):
    EXAMPLE = {
        "items": [
            {
                "template": "ci",
                "idle": 2,
                "claimed": 0,
                "running": 3,
                "booting": 1,
                "releasing": 0,
                "failed": 0,
                "terminating": 0,
                "min_idle": 2,
                "max_nodes": 20,
                "used": 6,
                "paused": False,
            }
        ],
        "used": 6,
        "max_nodes": 100,
        "paused": False,
    }

    items: tuple[Pool, ...]
    used: int
    max_nodes: int
    paused: bool

    @classmethod
    def of(cls, pools: overview.Pools) -> Self:
        return convert(cls, pools, items=tuple(Pool.of(pool) for pool in pools.items))
