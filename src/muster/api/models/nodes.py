"""Nodes and pools over the wire."""

from datetime import datetime
from typing import Self

from pydantic import Field

from muster.api.models.base import EXAMPLE_TIME, Asked, Out, at, example, maybe_at
from muster.api.models.operations import PAGE_MOST
from muster.domain.diagnosis import Section
from muster.domain.health import Health, HealthSource, Vitals
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.overview import Pool, Pools
from muster.domain.reasons import Reason
from muster.domain.template import UsageClass


class NodeOut(Out):
    model_config = example(
        {
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
    )

    id: str
    template: str
    revision: int
    provider: str
    resource_class: str
    usage_class: UsageClass
    instance_type: str
    machine_id: str
    launch_id: str | None
    state: NodeState
    version: int
    created_at: datetime
    entered_at: datetime
    deadline_at: datetime | None
    deadline_source: str
    operation_id: str | None
    assignment_id: str | None
    run: str | None
    owner: str | None
    last_owner: str | None
    joined_at: datetime | None
    booted_at: datetime | None
    attached_at: datetime | None
    last_seen_at: datetime | None
    drain: bool
    reason: Reason | None
    detail: str
    """The reason in words."""
    phase: str
    """How far its boot is, and in which named step of it."""
    step: str
    address: str
    health: Health | None
    """How it feels; None before it joined and after it ended."""
    health_reason: str
    health_source: HealthSource | None
    health_since: datetime | None

    @classmethod
    def of(cls, node: Node, vitals: Vitals | None) -> Self:
        return cls(
            id=node.id,
            template=node.template,
            revision=node.revision,
            provider=node.provider,
            resource_class=node.resource_class,
            usage_class=node.usage_class,
            instance_type=node.instance_type,
            machine_id=node.machine_id,
            launch_id=node.launch_id,
            state=node.state,
            version=node.version,
            created_at=at(node.created_at),
            entered_at=at(node.entered_at),
            deadline_at=maybe_at(node.deadline_at),
            deadline_source=node.deadline_source,
            operation_id=node.operation_id,
            assignment_id=node.assignment_id,
            run=node.run,
            owner=node.owner,
            last_owner=node.last_owner,
            joined_at=maybe_at(node.joined_at),
            booted_at=maybe_at(node.booted_at),
            attached_at=maybe_at(node.attached_at),
            last_seen_at=maybe_at(vitals.seen_at if vitals else None),
            drain=node.drain,
            reason=node.reason,
            detail=node.detail,
            phase=node.phase,
            step=node.step,
            address=node.address,
            health=vitals.health if vitals else None,
            health_reason=vitals.health_reason if vitals else "",
            health_source=vitals.health_source if vitals else None,
            health_since=maybe_at((vitals.health_since or None) if vitals else None),
        )


class NodesAsked(Asked):
    state: list[NodeState] = Field(default=[], max_length=len(NodeState))
    """None given: every state but terminated."""
    template: str | None = None
    cursor: str | None = None
    limit: int = Field(default=100, ge=1, le=PAGE_MOST)


class ConsoleOut(Out):
    model_config = example(
        {
            "node_id": "node-1hx2k9q0c7m3t8v5e2",
            "text": "Reading package lists...",
            "missing": "",
            "read_at": EXAMPLE_TIME,
        }
    )

    node_id: str
    text: str
    missing: str
    """Why there is no text, if there is none."""
    read_at: datetime

    @classmethod
    def of(cls, node: Node, found: Section, read_at: float) -> Self:
        return cls(node_id=node.id, text=found.text, missing=found.missing, read_at=at(read_at))


class PoolOut(Out):
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
    def of(cls, pool: Pool) -> Self:
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


class PoolsOut(Out):
    model_config = example(
        {
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
    )

    items: list[PoolOut]
    used: int
    max_nodes: int
    paused: bool

    @classmethod
    def of(cls, pools: Pools) -> Self:
        items = [PoolOut.of(pool) for pool in pools.items]
        return cls(items=items, used=pools.used, max_nodes=pools.max_nodes, paused=pools.paused)
