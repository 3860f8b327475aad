"""What a node should do now, derived from its record alone.

Level-triggered: the answer depends on nothing but the present record, so a replayed, repeated or late
answer starts nothing twice. The agent compares it with what it has done and closes the gap.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from muster.domain.ids import AssignmentId
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node


class Directive(StrEnum):
    STAY = "stay"
    """Boot, if it hasn't; then wait."""
    ATTACH = "attach"
    DETACH = "detach"
    STOP = "stop"
    LEAVE = "leave"
    """For an app: it is no node any more. It says that it left, and goes on with its work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    version: int
    """The record's version; an answer with a lower one than already seen is older news."""
    directive: Directive
    assignment_id: AssignmentId | None
    run: str | None
    dead_man: float
    """Seconds after which the node, hearing nothing more, stops by itself."""
    commanded: bool = field(compare=False)
    """Not told: whether there can be commands for it. Only for a node that runs: detaching ends them all."""
    kit: bool = False
    """Attaching takes a kit, which the node asks for."""


def desired(node: Node, *, dead_man: float, kit: bool = False) -> Desired:
    directive = _directive(node)
    looked_at = node.commandable and node.state is NodeState.FAILED
    bound = directive in (Directive.ATTACH, Directive.DETACH) or looked_at
    return Desired(
        version=node.version,
        directive=directive,
        assignment_id=node.assignment_id if bound else None,
        run=node.run if bound else None,
        dead_man=dead_man,
        commanded=node.commandable,
        kit=kit and directive is Directive.ATTACH,
    )


def _directive(node: Node) -> Directive:
    match node.state:
        case NodeState.CREATED | NodeState.CLAIMED | NodeState.RUNNING:
            return Directive.ATTACH if node.assignment_id is not None else Directive.STAY
        case NodeState.RELEASING:
            return Directive.DETACH
        case NodeState.IDLE | NodeState.FAILED:
            return Directive.STAY
        case NodeState.TERMINATING | NodeState.TERMINATED:
            return Directive.LEAVE if node.enrolled else Directive.STOP
