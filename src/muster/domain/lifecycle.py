"""Define the life of a node as data: states, verbs, edges, and who may call each verb.

A state changes only by a verb along an edge of this table. `docs/lifecycle.md` is generated from it (see
`tools.reference`). A test checks the table: one verb per edge, every state reaches `terminated`, no edge
leaves it.
"""

from dataclasses import dataclass
from enum import StrEnum


class NodeState(StrEnum):
    CREATED = "created"
    IDLE = "idle"
    CLAIMED = "claimed"
    RUNNING = "running"
    RELEASING = "releasing"
    FAILED = "failed"
    TERMINATING = "terminating"
    TERMINATED = "terminated"


class Verb(StrEnum):
    ADOPT = "adopt"
    POOL_IN = "pool_in"
    CLAIM = "claim"
    HAND_OVER = "hand_over"
    RELEASE = "release"
    CLEAN = "clean"
    FAIL = "fail"
    EXTEND = "extend"
    CONDEMN = "condemn"
    CONFIRM_GONE = "confirm_gone"


class Fact(StrEnum):
    """Things a node write records without changing the state."""

    JOINED = "joined"
    ADVANCED = "advanced"
    BOOTED = "booted"
    ATTACHED = "attached"
    DRAINED = "drained"
    INTERRUPTED = "interrupted"
    COMMANDED = "commanded"
    HELD = "held"
    DISPLACED = "displaced"
    LEFT = "left"


ENDING = (NodeState.TERMINATING, NodeState.TERMINATED)
LIVE = tuple(state for state in NodeState if state not in ENDING)
"""States in which a machine may still be of use."""
PRESENT = tuple(state for state in NodeState if state is not NodeState.TERMINATED)
WITH_HEALTH = tuple(state for state in LIVE if state is not NodeState.FAILED)
"""States whose health the overview counts. A failed node is already judged."""

HOLDING = (NodeState.CREATED, NodeState.CLAIMED, NodeState.RUNNING)
"""Bound to a provision that has the node, or is getting it."""
MEANING: dict[NodeState, str] = {
    NodeState.CREATED: "got from a provider; booting, or booted and attaching to the run it was made for",
    NodeState.IDLE: "booted, detached from its last run, can be claimed",
    NodeState.CLAIMED: "taken from the pool for a run, attaching",
    NodeState.RUNNING: "handed over to a run",
    NodeState.RELEASING: "released; detaching from its last run",
    NodeState.FAILED: "did not boot; kept for a short while for diagnosis and rescue",
    NodeState.TERMINATING: "to be ended; the reaper terminates it until the provider says gone",
    NodeState.TERMINATED: "gone at the provider; kept as history",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    verb: Verb
    source: NodeState | None
    """None: the node had no record before."""
    target: NodeState
    callers: tuple[str, ...]
    when: str


def _edges() -> tuple[Edge, ...]:
    def edge(verb: Verb, source: NodeState | None, target: NodeState, callers: str, when: str) -> Edge:
        names = tuple(callers.split(", "))
        return Edge(verb=verb, source=source, target=target, callers=names, when=when)

    s = NodeState
    launchers = "operations, launches, enrolment"
    condemners = "rollback, failsafe, sweep, pool, vanished, operator, reuse rules, enrolment"
    return (
        edge(Verb.ADOPT, None, s.CREATED, launchers, "the provider answered in full"),
        edge(
            Verb.ADOPT,
            None,
            s.TERMINATING,
            f"{launchers}, orphans",
            "a failed, partial, late or abandoned launch",
        ),
        edge(Verb.POOL_IN, s.CREATED, s.IDLE, "refill", "booted, for a refill"),
        edge(
            Verb.CLAIM,
            s.IDLE,
            s.CLAIMED,
            "provision",
            "matches, current, unexpired, fresh heartbeat, no drain",
        ),
        edge(
            Verb.HAND_OVER,
            s.CREATED,
            s.RUNNING,
            "provision, enrolment",
            "after the commit; a service: its server accepts connections",
        ),
        edge(Verb.HAND_OVER, s.CLAIMED, s.RUNNING, "provision", "after the commit"),
        edge(Verb.RELEASE, s.RUNNING, s.RELEASING, "release", "the run ended"),
        edge(
            Verb.RELEASE, s.CLAIMED, s.RELEASING, "release, rollback", "the provision failed or was cancelled"
        ),
        edge(Verb.RELEASE, s.CREATED, s.RELEASING, "rollback", "the node is up and its template pools"),
        edge(Verb.RELEASE, s.FAILED, s.RELEASING, "rescue", "it booted after all, inside the rescue window"),
        edge(Verb.CLEAN, s.RELEASING, s.IDLE, "release", "detached proven, reuse allowed, revision current"),
        edge(
            Verb.FAIL,
            s.CREATED,
            s.FAILED,
            "sweep, boot watch, enrolment",
            "not booted, and overdue or reported",
        ),
        *(edge(Verb.EXTEND, x, x, "sweep, pool, operator", "a later deadline") for x in LIVE),
        *(edge(Verb.CONDEMN, x, s.TERMINATING, condemners, "with a reason") for x in LIVE),
        edge(
            Verb.CONFIRM_GONE,
            s.TERMINATING,
            s.TERMINATED,
            "reaper",
            "the provider says gone; an app left or sent no heartbeats",
        ),
    )


EDGES: tuple[Edge, ...] = _edges()
ALLOWED = frozenset((edge.verb, edge.source, edge.target) for edge in EDGES)


def allowed(verb: Verb, source: NodeState | None, target: NodeState) -> bool:
    return (verb, source, target) in ALLOWED
