"""Which nodes can serve which request: class, instance type patterns, usage class, revision, reuse.

Owns the rule. Stores express the same rule in their own query language for `claim`; the contract suite
holds them to `fits`.
"""

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass

from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.template import Reuse, UsageClass


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a node must be to serve a request. `seen_since` is the oldest heartbeat still called fresh."""

    template: str
    revision: int
    resource_class: str
    usage: tuple[UsageClass, ...]
    instance_types: tuple[str, ...]
    reuse: Reuse
    owner: str


def type_matches(instance_type: str, patterns: Iterable[str]) -> bool:
    """Return whether a pattern covers the type, in any case of letters. Only `*` is special."""
    lowered = instance_type.lower()
    return any(_glob(lowered, pattern.lower()) for pattern in patterns)


def _glob(text: str, pattern: str) -> bool:
    # fnmatch knows ? and [ too; both are refused where patterns enter, so escape them for safety.
    return fnmatch.fnmatchcase(text, pattern.replace("[", "[[]").replace("?", "[?]"))


def reuse_allows(reuse: Reuse, last_owner: str | None, owner: str) -> bool:
    """Return whether the owner may get the node. A node that never served is free for every owner."""
    if last_owner is None or reuse is Reuse.ALWAYS:
        return True
    return reuse is Reuse.SAME_OWNER and last_owner == owner


def suits(node: Node, demand: Demand) -> bool:
    """Return whether the node is of the right kind, whatever it does at present."""
    return (
        node.template == demand.template
        and node.revision == demand.revision
        and node.resource_class == demand.resource_class
        and node.usage_class in demand.usage
        and type_matches(node.instance_type, demand.instance_types)
        and reuse_allows(demand.reuse, node.last_owner, demand.owner)
    )


def fits(node: Node, demand: Demand, *, seen_at: float | None, seen_since: float, now: float) -> bool:
    """Return whether the node can be claimed for the demand right now."""
    return (
        node.state is NodeState.IDLE
        and not node.drain
        and (node.deadline_at is None or now < node.deadline_at)
        and seen_at is not None
        and seen_at >= seen_since
        and suits(node, demand)
    )
